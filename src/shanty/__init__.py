"""shanty: one image classifier, trained on all the small machines you have."""

__version__ = "0.1.0"
