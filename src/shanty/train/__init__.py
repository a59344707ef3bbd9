"""One training on one rank: build, step, loop, validate, save."""
