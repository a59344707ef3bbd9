"""From a trained run and unseen images to a file a contest accepts."""
