"""Pixel rules: any picture that Pillow opens becomes three 8-bit channels, or is refused by name.

The rules are explained in docs/images.md. They are the same in training, validation and prediction;
a change of any of them is a change of ``decode.RULES``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

_ALPHA = ("RGBA", "LA", "PA", "RGBa", "La")
_PLAIN = ("RGB", "L", "P", "1", "CMYK", "YCbCr", "RGBX", "HSV")
_WHITE = (255, 255, 255)
_BITS_PER_SAMPLE = 258  # TIFF 6.0, section 8


class PixelsRefusedError(ValueError):
    """A pixel format that has no one right meaning as 8-bit colour. The text is the reason."""


def to_rgb(image: Image.Image) -> Image.Image:
    """The same picture, same size, in mode RGB.

    Grey fills three equal channels, transparency lies on white, 16-bit grey is scaled and never
    clipped. Raises PixelsRefusedError for what has no one right answer (floats, LAB, wide ints).
    """
    if image.mode.startswith("I"):
        return _from_wide(image)
    if image.mode in _ALPHA or _transparent(image):
        return _on_white(image)
    if image.mode not in _PLAIN:
        raise PixelsRefusedError(f"pixels of mode {image.mode} are not supported")
    return image if image.mode == "RGB" else image.convert("RGB")


def _transparent(image: Image.Image) -> bool:
    """Whether a palette entry or one colour is declared transparent, in a form that applies."""
    key = image.info.get("transparency")
    if isinstance(key, tuple):  # a 16-bit colour of a picture that was reduced to 8 bits
        return max(key) <= 255
    return key is not None and image.mode in ("P", "L", "1", "RGB")


def _on_white(image: Image.Image) -> Image.Image:
    straight = image if image.mode == "RGBA" else _straight(image)
    canvas = Image.new("RGB", image.size, _WHITE)
    canvas.paste(straight.convert("RGB"), mask=straight.getchannel("A"))
    return canvas


def _straight(image: Image.Image) -> Image.Image:
    """RGBA with colours not multiplied by alpha."""
    if image.mode == "La":
        return image.convert("LA").convert("RGBA")
    return image.convert("RGBA")


def _from_wide(image: Image.Image) -> Image.Image:
    """16-bit grey (also held in 32-bit integers) scaled to 8 bits, rounded to nearest."""
    values = np.asarray(image).astype(np.int64)
    full = 2 ** _depth(image) - 1
    low, high = int(values.min()), int(values.max())
    if low < 0 or high > full:
        raise PixelsRefusedError(f"grey values {low} to {high} do not fit {_depth(image)} bits")
    grey = (values * 255 + full // 2) // full
    key: Any = image.info.get("transparency")
    if isinstance(key, int):
        grey[values == key] = 255  # the transparent grey lies on white, too
    return _grey(grey.astype(np.uint8))


def _grey(values: npt.NDArray[np.uint8]) -> Image.Image:
    return Image.fromarray(values).convert("RGB")


def _depth(image: Image.Image) -> int:
    """Bits of one grey value: as a TIFF declares it (scientific cameras: 12), else 16."""
    tags: Any = getattr(image, "tag_v2", {})
    declared = tags.get(_BITS_PER_SAMPLE, (16,))
    bits = int(declared[0] if isinstance(declared, tuple) else declared)
    return bits if 8 < bits < 16 else 16
