"""Pixel rules: every mode has one decided result."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from pictures import png
from shanty.data.decode import UndecodableError
from shanty.data.pixels import PixelsRefusedError, to_rgb
from shanty.data.views import EvalView, read_eval

VIEW = EvalView(size=8, crop=1.0)


def flat(image: Image.Image, path: Path, **options: Any) -> list[int]:
    """The one colour of a flat picture after a round through a file."""
    image.save(path, **options)
    return colour_of(path)


def colour_of(path: Path) -> list[int]:
    seen = read_eval(path, VIEW)
    assert (seen == seen[0, 0]).all()
    return seen[0, 0].tolist()


def wide(value: int, kind: type = np.uint16) -> Image.Image:
    return Image.fromarray(np.full((9, 11), value, kind))


@pytest.mark.parametrize(
    ("mode", "fill", "expected"),
    [
        ("RGB", (10, 20, 30), [10, 20, 30]),
        ("L", 77, [77, 77, 77]),
        ("1", 1, [255, 255, 255]),
        ("1", 0, [0, 0, 0]),
        ("RGBA", (10, 20, 30, 255), [10, 20, 30]),
        ("RGBA", (10, 20, 30, 0), [255, 255, 255]),
        ("RGBA", (0, 100, 200, 51), [204, 224, 244]),
        ("LA", (0, 0), [255, 255, 255]),
        ("LA", (100, 255), [100, 100, 100]),
        ("LA", (0, 102), [153, 153, 153]),
    ],
)
def test_png_modes(tmp_path: Path, mode: str, fill: Any, expected: list[int]) -> None:
    assert flat(Image.new(mode, (11, 9), fill), tmp_path / "a.png") == expected


def test_a_palette_is_looked_up_and_its_transparency_lies_on_white(tmp_path: Path) -> None:
    image = Image.new("P", (11, 9), 1)
    image.putpalette([0, 0, 0, 200, 100, 0])
    path = tmp_path / "a.png"
    assert flat(image, path) == [200, 100, 0]
    assert flat(image, path, transparency=1) == [255, 255, 255]
    assert flat(image, path, transparency=0) == [200, 100, 0]
    assert flat(image, path, transparency=bytes([255, 51])) == [244, 224, 204]
    assert flat(image, tmp_path / "a.gif", transparency=1) == [255, 255, 255]


def test_one_transparent_colour_lies_on_white(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    assert flat(Image.new("L", (9, 9), 40), path, transparency=40) == [255, 255, 255]
    assert flat(Image.new("L", (9, 9), 41), path, transparency=40) == [41, 41, 41]
    assert flat(Image.new("RGB", (9, 9), (1, 2, 3)), path, transparency=(1, 2, 3)) == [255] * 3
    assert flat(wide(1000), path, transparency=1000) == [255, 255, 255]


def test_modes_without_a_file_of_their_own_are_straightened() -> None:
    image = Image.new("RGBA", (4, 4), (0, 100, 200, 51))
    assert to_rgb(image.convert("RGBa")).getpixel((0, 0)) == pytest.approx((204, 224, 244), abs=3)
    grey = Image.new("LA", (4, 4), (0, 102))
    assert to_rgb(grey.convert("La")).getpixel((0, 0)) == (153, 153, 153)
    palette = Image.new("P", (4, 4), 1)
    palette.putpalette([0, 0, 0, 0, 100, 200])
    palette.putalpha(51)
    assert palette.mode == "PA"
    assert to_rgb(palette).getpixel((0, 0)) == (204, 224, 244)


@pytest.mark.parametrize("name", ["a.png", "a.tif", "a.jp2"])
@pytest.mark.parametrize("value", [0, 300, 60000, 65535])
def test_16_bit_grey_is_scaled_and_not_clipped(tmp_path: Path, name: str, value: int) -> None:
    assert flat(wide(value), tmp_path / name) == [round(value / 257)] * 3


@given(st.integers(0, 65535))
def test_16_bit_grey_is_rounded_to_nearest(value: int) -> None:
    assert to_rgb(wide(value)).getpixel((0, 0)) == (round(value / 257),) * 3


def test_big_endian_16_bit_grey(tmp_path: Path) -> None:
    header = b"P5 4 4 65535\n" + struct.pack(">16H", *[60000] * 16)
    (tmp_path / "a.pgm").write_bytes(header)
    assert colour_of(tmp_path / "a.pgm") == [233, 233, 233]
    assert to_rgb(Image.frombytes("I;16B", (2, 2), struct.pack(">4H", *[60000] * 4))).getpixel(
        (0, 0)
    ) == (233, 233, 233)


def test_a_12_bit_tiff_uses_its_own_white(tmp_path: Path) -> None:
    image = wide(4095)
    image.save(tmp_path / "a.tif")
    data = (tmp_path / "a.tif").read_bytes()
    sixteen, twelve = (struct.pack("<HHIHH", 258, 3, 1, bits, 0) for bits in (16, 12))
    assert data.count(sixteen) == 1
    assert colour_of(tmp_path / "a.tif") == [16, 16, 16]
    # 12 bits are packed: two values in three bytes, each row starting on a byte
    offset, count = image_strip(data)
    rows = (b"\xff" * (-(-11 * 12 // 8))) * 9
    assert len(rows) <= count
    data = data.replace(sixteen, twelve)
    (tmp_path / "b.tif").write_bytes(data[:offset] + rows + data[offset + len(rows) :])
    assert colour_of(tmp_path / "b.tif") == [255, 255, 255]


def image_strip(data: bytes) -> tuple[int, int]:
    """Offset and bytes of the only strip of a little-endian TIFF."""
    start = struct.unpack_from("<I", data, 4)[0]
    entries = struct.unpack_from("<H", data, start)[0]
    values = {}
    for entry in range(entries):
        tag, kind, _, value = struct.unpack_from("<HHII", data, start + 2 + 12 * entry)
        values[tag] = value & 0xFFFF if kind == 3 else value
    return values[273], values[279]


def test_32_bit_grey_in_the_16_bit_range_is_scaled_and_beyond_it_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.tif"
    assert flat(wide(60000, np.int32), path) == [233, 233, 233]
    for value in (-1, 65536, 2**31 - 1):
        wide(value, np.int32).save(path)
        with pytest.raises(UndecodableError, match=f"grey values {value} to {value} do not fit"):
            read_eval(path, VIEW)


def test_floats_and_lab_are_refused_by_name(tmp_path: Path) -> None:
    for mode in ("F", "LAB"):
        Image.new(mode, (9, 9)).save(tmp_path / "a.tif")
        with pytest.raises(UndecodableError, match=f"pixels of mode {mode} are not supported"):
            read_eval(tmp_path / "a.tif", VIEW)
    with pytest.raises(PixelsRefusedError, match="mode F"):
        to_rgb(Image.new("F", (2, 2)))


def test_cmyk_jpeg_has_its_colours_not_their_negative(tmp_path: Path) -> None:
    orange = Image.new("RGB", (16, 16), (230, 120, 20))
    orange.convert("CMYK").save(tmp_path / "a.jpg", quality=100)
    assert colour_of(tmp_path / "a.jpg") == pytest.approx([230, 120, 20], abs=3)
    orange.convert("CMYK").save(tmp_path / "a.tif")
    assert colour_of(tmp_path / "a.tif") == [230, 120, 20]
    assert to_rgb(orange.convert("YCbCr")).getpixel((0, 0)) == pytest.approx((230, 120, 20), abs=2)


def test_grey_jpeg_has_three_equal_channels_at_every_scale(tmp_path: Path) -> None:
    ramp = np.broadcast_to(np.arange(256, dtype=np.uint8), (256, 256))
    Image.fromarray(ramp).save(tmp_path / "a.jpg")
    for size in (16, 32, 64, 128, 256, 300):
        seen = read_eval(tmp_path / "a.jpg", EvalView(size=size, crop=1.0))
        assert seen.shape == (size, size, 3)
        assert (seen == seen[..., :1]).all()
        assert abs(float(seen.mean()) - 127.5) < 1


def test_16_bit_colour_png_keeps_its_high_bytes(tmp_path: Path) -> None:
    row = b"\0" + struct.pack(">3H", 60000, 30000, 300) * 4
    key = struct.pack(">3H", 60000, 30001, 300)  # a colour that only 16 bits can tell apart
    (tmp_path / "a.png").write_bytes(png((4, 4, 16, 2, 0, 0, 0), row * 4, key))
    assert colour_of(tmp_path / "a.png") == [60000 >> 8, 30000 >> 8, 300 >> 8]
