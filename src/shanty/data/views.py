"""Views: which part of a picture the network sees, in training and everywhere else.

A training view is a random crop with variations; an evaluation view is the centre, always the same.
Validation and prediction use the evaluation view, so a photo gets one answer wherever it is shown.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image

from shanty.data import augment
from shanty.data.decode import Box, open_view

_TRIES = 10
_NARROWEST, _WIDEST = 3 / 4, 4 / 3


@dataclass(frozen=True, kw_only=True)
class TrainView:
    """How a training picture is cropped and varied. ``size`` is in pixels; see AugmentConfig."""

    size: int
    min_area: float
    hflip: float
    jitter: float
    randaugment: int
    magnitude: float


@dataclass(frozen=True, kw_only=True)
class EvalView:
    """The centre square of ``crop`` x the short side, as ``size`` x ``size`` pixels."""

    size: int
    crop: float
    flip: bool = False


def read_train(path: Path, view: TrainView, rng: random.Random) -> npt.NDArray[np.uint8]:
    """A varied view of a picture: uint8 [size, size, 3], C-contiguous, writable.

    Everything random comes from ``rng``: give every sample and epoch its own, and the result does
    not depend on ranks, workers or order. Raises UndecodableError.
    """
    image = open_view(path, partial(random_box, min_area=view.min_area, rng=rng), view.size)
    image = augment.flip(image, view.hflip, rng)
    image = augment.jitter(image, view.jitter, rng)
    image = augment.randaugment(image, view.randaugment, view.magnitude, rng)
    return np.array(image)


def read_eval(path: Path, view: EvalView) -> npt.NDArray[np.uint8]:
    """The evaluation view of a picture: uint8 [size, size, 3], C-contiguous, writable.

    Raises UndecodableError.
    """
    image = open_view(path, partial(centre_box, crop=view.crop), view.size)
    if view.flip:
        image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    return np.array(image)


def centre_box(width: int, height: int, *, crop: float) -> Box:
    """The centre square whose side is ``crop`` of the short side, at least one pixel."""
    side = max(1, round(crop * min(width, height)))
    return _centred(width, height, side, side)


def random_box(width: int, height: int, *, min_area: float, rng: random.Random) -> Box:
    """A random crop: its part of the area is uniform in [min_area, 1], its shape 3:4 to 4:3.

    Ten tries, then the largest allowed shape in the centre. ``min_area`` 1 means no random crop:
    the centre square, with nothing drawn. Method: Szegedy et al. 2015 ("Going deeper with
    convolutions"), in the form of torchvision's RandomResizedCrop. Only ``rng.random`` is used,
    whose values Python promises to keep from version to version.
    """
    if min_area >= 1:
        return centre_box(width, height, crop=1.0)
    for _ in range(_TRIES):
        area = width * height * _between(rng, min_area, 1.0)
        ratio = math.exp(_between(rng, math.log(_NARROWEST), math.log(_WIDEST)))
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < w <= width and 0 < h <= height:
            left, top = int(rng.random() * (width - w + 1)), int(rng.random() * (height - h + 1))
            return left, top, left + w, top + h
    return _fallback_box(width, height)


def _fallback_box(width: int, height: int) -> Box:
    w = min(width, max(1, round(height * _WIDEST)))
    h = min(height, max(1, round(width / _NARROWEST)))
    return _centred(width, height, w, h)


def _centred(width: int, height: int, w: int, h: int) -> Box:
    left, top = (width - w) // 2, (height - h) // 2
    return left, top, left + w, top + h


def _between(rng: random.Random, low: float, high: float) -> float:
    return low + (high - low) * rng.random()
