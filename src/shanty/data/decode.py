"""From a file to the pixels of one view: the only place in shanty that opens pictures.

``open_view`` reads the file, lets the caller choose a box on the upright picture (EXIF orientation
applied), decodes no more detail than the box needs, and resizes it once. Decoders meet this code in
the ``Picture`` protocol, so another one can be added without touching a view.

Safe to call from many threads at once; equal files and boxes give equal bytes.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Protocol

import PIL
from PIL import Image, ImageFile, features

from shanty.data.pixels import to_rgb
from shanty.data.reasons import MAX_PIXELS, explain
from shanty.errors import FailedError, RefusedError

#: Version of the image rules (docs/images.md). Any change of a decoded byte must raise it.
RULES = "1"

#: left, top, right, bottom in pixels of the upright picture; right and bottom are exclusive.
Box = tuple[int, int, int, int]
#: The same in pixels of a reduced picture, where edges may fall between pixels.
FineBox = tuple[float, float, float, float]

# Only formats of pictures. Not EPS and its like: opening one starts another program.
_WANTED = ("JPEG", "MPO", "PNG", "WEBP", "GIF", "BMP", "TIFF", "JPEG2000", "PPM")
# All plugins now: loaded on demand from two threads at once, one may miss what the other loads.
Image.init()
_FORMATS = tuple(name for name in _WANTED if name in Image.OPEN)

# For the whole process and once: switching warnings off around a call is not safe with threads.
# Nothing is lost: large pictures are limited below, transparency and damaged EXIF have their rule.
warnings.filterwarnings("ignore", category=Image.DecompressionBombWarning)
warnings.filterwarnings("ignore", category=UserWarning, module=r"PIL\.")

_ORIENTATION = 0x0112
_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


class UndecodableError(Exception):
    """A file that cannot be used as a picture, and why in one short sentence."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path = path
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


class Picture(Protocol):
    """A picture whose header is read. What a decoder must offer."""

    @property
    def size(self) -> tuple[int, int]:
        """Width and height as a person sees the picture."""
        ...

    def detail(self, box: Box, least: int) -> tuple[Image.Image, FineBox]:
        """Upright RGB pixels that hold ``box``, and where it lies in them.

        A decoder may leave detail out as long as the box keeps ``least`` pixels on each side.
        """
        ...


def open_view(path: Path, pick: Callable[[int, int], Box], size: int) -> Image.Image:
    """One box of a picture as an RGB image of ``size`` x ``size``.

    ``pick`` gets width and height of the upright picture and returns the box. The resize is
    bilinear with antialiasing. Raises UndecodableError for every file that is no usable
    picture, FailedError for one that the system cannot read.
    """
    data = _read(path)
    with _blaming(path, data):
        picture = _open_picture(data)
    box = pick(*picture.size)
    with _blaming(path, data):
        pixels, where = picture.detail(box, size)
    return pixels.resize((size, size), Image.Resampling.BILINEAR, box=where)


def describe() -> dict[str, str]:
    """What turns files into pixels here: written into the run, and compared on resume."""
    turbo = features.version_feature("libjpeg_turbo")
    return {
        "decoder": f"pillow-draft {PIL.__version__}",
        "libjpeg": f"turbo {turbo}" if turbo else f"{features.version_codec('jpg')}",
        "resize": "pillow bilinear antialias",
        "rules": RULES,
    }


def check_rules(then: dict[str, str], run: str) -> tuple[str, ...]:
    """Compare with what ``describe`` said when ``run`` was trained; what else changed, in words.

    Raises:
        RefusedError: the image rules or the resize differ: the same file would be other pixels.
    """
    now = describe()
    for key in ("rules", "resize"):
        if then.get(key) != now[key]:
            raise RefusedError(
                f"{run} was trained with image {key} {then.get(key)!r}, here it is {now[key]!r}",
                hint="use the shanty version that the run's run.json names",
            )
    changed = [key for key in now if then.get(key) != now[key]]
    return tuple(f"{run}: {key} was {then.get(key)}, is {now[key]}" for key in changed)


def _read(path: Path) -> bytes:
    """The whole file: afterwards an OSError can only mean a damaged picture.

    A file that the system does not give is no bad picture: a disk or a network share may be gone,
    and skipping picture after picture would train on nothing without anybody noticing.
    """
    try:
        return path.read_bytes()
    except OSError as error:
        raise FailedError(
            f"{path} cannot be read: {error.strerror or error}",
            hint="check the disk or network share that holds the images; a training then goes on"
            " with shanty train --resume",
        ) from error


@contextmanager
def _blaming(path: Path, data: bytes) -> Generator[None, None, None]:
    try:
        yield
    except Exception as error:  # damaged bytes raise nearly every type in a parser
        raise UndecodableError(os.fspath(path), explain(error, data)) from error


def _open_picture(data: bytes) -> Picture:
    """The place to choose a decoder by the file's first bytes. Today Pillow reads them all."""
    image = Image.open(BytesIO(data), formats=_FORMATS)
    width, height = image.size
    if width * height > MAX_PIXELS:
        raise Image.DecompressionBombError
    if image.format not in ("JPEG", "MPO"):
        image.load()  # PNG may keep its EXIF behind the pixels, and TIFF turns itself upright
    return _PillowPicture(image=image, orientation=_orientation(image))


def _orientation(image: Image.Image) -> int:
    """The EXIF (or XMP) orientation, 1 to 8. A damaged tag counts as none."""
    try:
        found = image.getexif().get(_ORIENTATION, 1)
    except Exception:  # noqa: BLE001 - a parser on damaged bytes; the picture itself may be fine
        return 1
    return found if found in _TURNS else 1


@dataclass(frozen=True, kw_only=True)
class _PillowPicture:
    """Pillow's decoder. JPEG is reduced by 2, 4 or 8 while decoding (``draft``)."""

    image: ImageFile.ImageFile
    orientation: int

    @property
    def size(self) -> tuple[int, int]:
        width, height = self.image.size
        return (width, height) if self.orientation < 5 else (height, width)

    def detail(self, box: Box, least: int) -> tuple[Image.Image, FineBox]:
        full = self.size
        factor = self._reduce(box, least)
        pixels = to_rgb(self._load())
        if self.orientation in _TURNS:
            pixels = pixels.transpose(_TURNS[self.orientation])
        return pixels, self._locate(box, full, pixels.size, factor)

    def _load(self) -> Image.Image:
        self.image.load()
        return self.image

    def _reduce(self, box: Box, least: int) -> int:
        """Ask for the coarsest JPEG scale at which the box still has ``least`` pixels a side.

        Scales other than 1/2, 1/4 and 1/8 decode slower than the full size (no SIMD transform).
        """
        side = min(box[2] - box[0], box[3] - box[1])
        factor = next((n for n in (8, 4, 2) if side >= n * least), 1)
        if factor == 1 or self.image.format not in ("JPEG", "MPO"):
            return 1
        width, height = self.image.size
        granted = self.image.draft(None, (width // factor, height // factor))
        return factor if granted else 1

    def _locate(
        self, box: Box, full: tuple[int, int], reduced: tuple[int, int], factor: int
    ) -> FineBox:
        """The box in the reduced picture.

        A reduced side is rounded up at the far end of the *stored* picture. Where turning it
        upright puts that end first, everything moves by the part of a pixel that was added.
        """
        right = reduced[0] - full[0] / factor if self.orientation in (2, 3, 6, 7) else 0.0
        down = reduced[1] - full[1] / factor if self.orientation in (3, 4, 7, 8) else 0.0
        left, top, far, low = (edge / factor for edge in box)
        return left + right, top + down, far + right, low + down
