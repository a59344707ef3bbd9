"""Photos for the benchmark where no real ones are given: written from what scikit-learn brings.

Each is a piece of one of its two sample photographs with a handwritten digit drawn into it, a JPEG
of 480 x 360 pixels: decoding costs what a photo's does, and there is something to learn.
"""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits, load_sample_images

WIDTH, HEIGHT, SIDE = 480, 360, 240


def write_photos(folder: Path, count: int, seed: int = 0) -> Path:
    """Write ``count`` photos as class folders: nine tenths in ``train``, the rest in ``val``."""
    pictures, targets = load_digits(return_X_y=True)
    grounds = [Image.fromarray(array) for array in load_sample_images().images]
    luck = random.Random(seed)
    for number in range(count):
        index = luck.randrange(len(targets))
        part = "val" if number % 10 == 0 else "train"
        path = folder / part / str(targets[index]) / f"{number:05d}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        ground = luck.choice(grounds)
        photo(ground, pictures[index].reshape(8, 8), luck).save(path, quality=90)
    return folder


def photo(ground: Image.Image, digit: np.ndarray, luck: random.Random) -> Image.Image:
    """A piece of ``ground`` with ``digit`` (8 x 8, 0 to 16) painted white somewhere in it."""
    left = luck.randrange(ground.width - WIDTH)
    top = luck.randrange(ground.height - HEIGHT)
    piece = ground.crop((left, top, left + WIDTH, top + HEIGHT))
    mask = Image.fromarray((digit * (255 / 16)).astype("uint8")).resize((SIDE, SIDE))
    place = (luck.randrange(WIDTH - SIDE), luck.randrange(HEIGHT - SIDE))
    piece.paste((255, 255, 255), (*place, place[0] + SIDE, place[1] + SIDE), mask)
    return piece
