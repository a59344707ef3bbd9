"""The run's folder: its paths, its atomic writes, its events. Both sides meet here. Stdlib only."""
