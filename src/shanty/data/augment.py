"""Variations of a training picture: flip, colour jitter, RandAugment.

All work on the small result of the crop, an RGB image, and draw only from the generator they are
given. They are our own because those of torchvision and timm draw from generators that are shared
by the whole process: with those, what happens to a picture depends on which worker meets it and
when, and a training cannot be repeated on another number of ranks.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from PIL import Image, ImageEnhance, ImageOps

Change = Callable[[Image.Image, float], Image.Image]

_GREY = (128, 128, 128)


def flip(image: Image.Image, chance: float, rng: random.Random) -> Image.Image:
    """The picture, mirrored left to right with probability ``chance``. Draws one number."""
    if rng.random() >= chance:
        return image
    return image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)


def jitter(image: Image.Image, strength: float, rng: random.Random) -> Image.Image:
    """Brightness, contrast and saturation, each times a factor in 1 - strength to 1 + strength.

    In a random order. Nothing is drawn when ``strength`` is 0. Method: Howard 2013 ("Some
    improvements on deep convolutional neural network based image classification").
    """
    if strength <= 0:
        return image
    changes = [_brightness, _contrast, _saturation]
    while changes:
        change = changes.pop(_below(rng, len(changes)))
        image = change(image, strength * (2 * rng.random() - 1))
    return image


def randaugment(
    image: Image.Image, count: int, magnitude: float, rng: random.Random
) -> Image.Image:
    """``count`` operations, drawn with replacement from 14, each of strength ``magnitude`` / 10.

    Method: Cubuk et al. 2020 ("RandAugment: practical automated data augmentation with a reduced
    search space"), in the usual form where every operation grows with the magnitude (the first
    code let some shrink). Directions are random. What a move uncovers is mid-grey.
    """
    for _ in range(count):
        change = _OPERATIONS[_below(rng, len(_OPERATIONS))]
        sign = 1 if rng.random() < 0.5 else -1
        image = change(image, sign * magnitude / 10)
    return image


def _below(rng: random.Random, count: int) -> int:
    """A whole number from 0 to count - 1, from ``random`` alone (the same in every Python)."""
    return int(rng.random() * count)


# Each change takes a level from -1 to 1, where 0 changes nothing. Those without a direction use
# its size; those that are all or nothing ignore it.


def _identity(image: Image.Image, _level: float) -> Image.Image:
    return image


def _auto_contrast(image: Image.Image, _level: float) -> Image.Image:
    return ImageOps.autocontrast(image)


def _equalize(image: Image.Image, _level: float) -> Image.Image:
    return ImageOps.equalize(image)


def _brightness(image: Image.Image, level: float) -> Image.Image:
    return ImageEnhance.Brightness(image).enhance(1 + level)


def _contrast(image: Image.Image, level: float) -> Image.Image:
    return ImageEnhance.Contrast(image).enhance(1 + level)


def _saturation(image: Image.Image, level: float) -> Image.Image:
    return ImageEnhance.Color(image).enhance(1 + level)


def _sharpness(image: Image.Image, level: float) -> Image.Image:
    return ImageEnhance.Sharpness(image).enhance(1 + level)


def _softened(change: Change) -> Change:
    """RandAugment's factor for these is 0.1 to 1.9: never a black or a colourless picture."""
    return lambda image, level: change(image, 0.9 * level)


def _rotate(image: Image.Image, level: float) -> Image.Image:
    return image.rotate(30 * level, Image.Resampling.BILINEAR, fillcolor=_GREY)


def _affine(image: Image.Image, matrix: tuple[float, ...]) -> Image.Image:
    return image.transform(
        image.size,
        Image.Transform.AFFINE,
        matrix,
        resample=Image.Resampling.BILINEAR,
        fillcolor=_GREY,
    )


def _shear_x(image: Image.Image, level: float) -> Image.Image:
    return _affine(image, (1, 0.3 * level, 0, 0, 1, 0))


def _shear_y(image: Image.Image, level: float) -> Image.Image:
    return _affine(image, (1, 0, 0, 0.3 * level, 1, 0))


def _translate_x(image: Image.Image, level: float) -> Image.Image:
    return _affine(image, (1, 0, 100 / 331 * level * image.width, 0, 1, 0))


def _translate_y(image: Image.Image, level: float) -> Image.Image:
    return _affine(image, (1, 0, 0, 0, 1, 100 / 331 * level * image.height))


def _posterize(image: Image.Image, level: float) -> Image.Image:
    """Fewer bits per channel: 8 down to 4."""
    return ImageOps.posterize(image, 8 - round(4 * abs(level)))


def _solarize(image: Image.Image, level: float) -> Image.Image:
    """Values from a threshold upwards are inverted; the threshold falls from 256 to 0."""
    return ImageOps.solarize(image, 256 - round(256 * abs(level)))


_OPERATIONS: tuple[Change, ...] = (
    _identity,
    _auto_contrast,
    _equalize,
    _rotate,
    _shear_x,
    _shear_y,
    _translate_x,
    _translate_y,
    _posterize,
    _solarize,
    _softened(_brightness),
    _softened(_contrast),
    _softened(_saturation),
    _softened(_sharpness),
)
