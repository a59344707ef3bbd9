"""Images: decoding, views, augmentation, sampling, loading (node's side)."""
