"""Made-up pictures and files for tests of the image rules."""

from __future__ import annotations

import random
import struct
import zlib
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

ORIENTATION = 0x0112
TURN_BACK = {  # how an upright picture is stored so that the tag turns it upright again
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_90,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_270,
}


def stream(*seed: object) -> random.Random:
    """A random stream of its own for every seed."""
    return random.Random("/".join(str(part) for part in seed))


def scene(width: int, height: int, seed: int = 0) -> Image.Image:
    """A picture without any symmetry: smooth colours with some grain."""
    rows, columns = np.mgrid[0:height, 0:width]
    grain = np.random.default_rng(seed).integers(0, 20, (height, width))
    slant = (columns + rows) * 200 // (width + height)
    layers = (columns * 200 // width, rows * 200 // height, slant)
    return Image.fromarray(np.stack([layer + grain for layer in layers], -1).astype(np.uint8))


def tagged(upright: Image.Image, path: Path, tag: int, **options: Any) -> Path:
    """The picture as a camera stores it: turned, with a tag that says how."""
    exif = Image.Exif()
    exif[ORIENTATION] = tag
    stored = upright.transpose(TURN_BACK[tag]) if tag in TURN_BACK else upright
    stored.save(path, exif=exif, **options)
    return path


def encoded(image: Image.Image, kind: str, **options: Any) -> bytes:
    """The bytes of a picture file."""
    buffer = BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def png(header: tuple[int, ...], rows: bytes, transparent: bytes = b"") -> bytes:
    """A PNG file, chunk by chunk. ``header``: width, height, bits, colour type, 0, 0, 0."""
    chunks = [(b"IHDR", struct.pack(">IIBBBBB", *header)), (b"tRNS", transparent)]
    chunks += [(b"IDAT", zlib.compress(rows)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
        for name, body in chunks
        if body or name != b"tRNS"
    )


def bomb() -> bytes:
    """A small file that declares 179.56 million pixels."""
    return png((13400, 13400, 1, 0, 0, 0, 0), b"")


def small_zoo(root: Path) -> Path:
    """Odd files in folders by category, like a dirty data set: ``root``/category/file."""
    photo, jpeg = scene(120, 90), encoded(scene(120, 90), "JPEG")
    grey16 = Image.fromarray(np.full((40, 40), 60000, np.uint16))
    files = {
        "16bit/grey.png": encoded(grey16, "PNG"),
        "alpha/rgba.png": encoded(photo.convert("RGBA"), "PNG"),
        "alpha/full-transparent.png": encoded(Image.new("RGBA", (30, 30)), "PNG"),
        "animated/two.webp": encoded(photo, "WEBP", save_all=True, append_images=[photo]),
        "cmyk/a.jpg": encoded(photo.convert("CMYK"), "JPEG"),
        "corrupt/all_zero_bytes.jpg": b"\0" * 999,
        "corrupt/first_bytes_zeroed.jpg": bytes(4) + jpeg[4:],
        "empty/zero_byte.jpg": b"",
        **{
            f"exif_rotated/scene_{n}.jpg": tagged(photo, root / f"{n}.jpg", n).read_bytes()
            for n in (3, 5, 6)
        },
        "grayscale/a.jpg": encoded(photo.convert("L"), "JPEG"),
        "huge/limit.png": bomb(),
        "junk/._photo.jpg": b"\0\5\x16\7Mac OS X" + bytes(50),
        "names/사진 1.jpg": jpeg,
        "other_ext/noextension": jpeg,
        "palette/a.png": encoded(photo.quantize(16), "PNG"),
        "progressive/a.jpg": encoded(photo, "JPEG", progressive=True),
        "tiny_or_thin/1x1.png": encoded(photo.resize((1, 1)), "PNG"),
        "truncated/cut.jpg": jpeg[: len(jpeg) * 6 // 10],
        "wrong_ext/gif_named_jpg.jpg": encoded(photo, "GIF"),
        "wrong_ext/html_error_page.jpg": b"<html><body>404</body></html>",
        "wrong_ext/lfs_pointer.jpg": b"version https://git-lfs.github.com/spec/v1\n",
    }
    for name, data in files.items():
        (root / "cases" / name).parent.mkdir(parents=True, exist_ok=True)
        (root / "cases" / name).write_bytes(data)
    return root / "cases"
