"""Files to samples: names, classes, split and digest. Nothing is decoded here. Stdlib only."""
