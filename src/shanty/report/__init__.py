"""What a run's events add up to. Pure; a week later the files give the same answer."""
