"""Reading files: reasons, orientation, reduced decoding, threads, silence."""

from __future__ import annotations

import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageFile

from pictures import bomb, encoded, scene, stream, tagged
from shanty.data.decode import UndecodableError, describe, open_view
from shanty.data.views import EvalView, TrainView, read_eval, read_train
from shanty.errors import FailedError

WHOLE = EvalView(size=32, crop=1.0)


def train_view(size: int = 24) -> TrainView:
    return TrainView(size=size, min_area=0.1, hflip=0.5, jitter=0.4, randaugment=2, magnitude=9)


def reason_of(path: Path) -> str:
    with pytest.raises(UndecodableError) as caught:
        read_eval(path, WHOLE)
    with pytest.raises(UndecodableError) as again:
        read_train(path, train_view(), stream(0))
    assert caught.value.path == str(path)
    assert caught.value.reason == again.value.reason
    assert "\n" not in caught.value.reason
    assert "0x" not in caught.value.reason  # no addresses: the same file has the same reason
    return caught.value.reason


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "empty file"),
        (b"\0" * 500, "only zero bytes"),
        (b"\xff\xd8\xff", ""),
        (b"not a picture" * 9, "not a picture"),
        (b"<!DOCTYPE html><html>404</html>", "a web page"),
        (b"\n<html>403</html>", "a web page"),
        (b"version https://git-lfs.github.com/spec/v1\n", "a git-lfs pointer"),
        (b"\0\0\0\x18ftypheic" + b"\0" * 60, "format heic is not supported"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "not a picture"),
        (b"P6 0 0 255\n", ""),
    ],
)
def test_what_is_no_picture_has_a_reason(tmp_path: Path, data: bytes, reason: str) -> None:
    path = tmp_path / "photo.jpg"
    path.write_bytes(data)
    assert reason_of(path).startswith(reason)


@pytest.mark.parametrize("name", ["a.jpg", "a.png", "a.gif", "a.webp", "a.tif", "a.bmp"])
@pytest.mark.parametrize("part", [0.3, 0.6, 0.9])
def test_a_file_that_ends_early_is_refused(tmp_path: Path, name: str, part: float) -> None:
    path = tmp_path / name
    scene(90, 70).save(path)
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * part)])
    assert reason_of(path)


def test_a_cut_jpeg_is_called_truncated_also_without_its_end_marker_only(tmp_path: Path) -> None:
    path = tmp_path / "a.jpg"
    scene(90, 70).save(path)
    data = path.read_bytes()
    for missing in (2, len(data) // 2):
        path.write_bytes(data[:-missing])
        assert reason_of(path) == "truncated: the file ends before the picture does"
    assert not ImageFile.LOAD_TRUNCATED_IMAGES


@pytest.mark.filterwarnings("ignore::UserWarning")  # pytest undoes the filter set at import
@settings(max_examples=300, deadline=None)
@given(st.sampled_from(["JPEG", "PNG", "GIF", "WEBP", "TIFF", "BMP", "PPM", "JPEG2000"]), st.data())
def test_flipped_bytes_give_pixels_or_a_reason(
    tmp_path_factory: pytest.TempPathFactory, kind: str, data: st.DataObject
) -> None:
    damaged = bytearray(encoded(scene(20, 16), kind))
    for _ in range(data.draw(st.integers(1, 8))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.getbasetemp() / f"damaged.{kind}"
    path.write_bytes(damaged)
    try:
        assert read_eval(path, EvalView(size=8, crop=0.9)).shape == (8, 8, 3)
    except UndecodableError as error:
        assert error.reason  # noqa: PT017 - either outcome is right, no third one is


def test_a_flipped_byte_in_a_png_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    scene(60, 60).save(path)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(data)
    assert reason_of(path).startswith("damaged: ")


@pytest.mark.parametrize(
    ("name", "word"), [("gone.jpg", "No such file or directory"), ("", "Is a directory")]
)
def test_a_file_the_system_does_not_give_is_no_bad_picture(
    tmp_path: Path, name: str, word: str
) -> None:
    with pytest.raises(FailedError, match=f"{name} cannot be read: {word}") as raised:
        read_eval(tmp_path / name, EvalView(size=8, crop=1.0))
    assert "--resume" in raised.value.hint


def test_too_many_pixels_are_refused_before_they_are_decoded(tmp_path: Path) -> None:
    path = tmp_path / "bomb.png"
    path.write_bytes(bomb())
    assert reason_of(path) == "more than 178 megapixels"


def test_the_error_crosses_process_borders() -> None:
    back = pickle.loads(pickle.dumps(UndecodableError("a/b.jpg", "empty file")))  # noqa: S301 - ours
    assert (back.path, back.reason, str(back)) == ("a/b.jpg", "empty file", "a/b.jpg: empty file")


@pytest.mark.parametrize("tag", range(2, 9))
@pytest.mark.parametrize("name", ["a.png", "a.tif", "a.webp"])
def test_a_tagged_copy_equals_the_upright_picture(tmp_path: Path, name: str, tag: int) -> None:
    upright = scene(75, 52)
    options: dict[str, Any] = {"lossless": True} if name.endswith("webp") else {}
    upright.save(tmp_path / "plain.png")
    tagged(upright, tmp_path / name, tag, **options)
    for crop in (0.8, 1.0):
        view = EvalView(size=24, crop=crop)
        plain = read_eval(tmp_path / "plain.png", view)
        np.testing.assert_array_equal(read_eval(tmp_path / name, view), plain)
    for seed in range(5):
        views = [
            read_train(tmp_path / file, train_view(), stream(seed)) for file in (name, "plain.png")
        ]
        np.testing.assert_array_equal(views[0], views[1])


@pytest.mark.parametrize("tag", [0, 1, 9, 4711])
def test_a_tag_that_means_nothing_turns_nothing(tmp_path: Path, tag: int) -> None:
    scene(40, 30).save(tmp_path / "plain.png")
    path = tagged(scene(40, 30), tmp_path / "tagged.png", tag)
    np.testing.assert_array_equal(read_eval(path, WHOLE), read_eval(tmp_path / "plain.png", WHOLE))


@pytest.mark.parametrize("tag", range(1, 9))
@pytest.mark.parametrize(("width", "height"), [(403, 301), (1001, 777)])
def test_reduced_decoding_shows_the_same_place(
    tmp_path: Path, tag: int, width: int, height: int
) -> None:
    """All scales and all turns, sides that no scale divides: less than a grain of difference.

    A box that is off by one reduced pixel differs by more than 3 on this ramp.
    """
    columns = np.broadcast_to(np.arange(width) % 256, (height, width))
    rows = np.broadcast_to((np.arange(height) % 256)[:, None], (height, width))
    ramp = Image.fromarray(np.stack([columns, rows, columns * 0], -1).astype(np.uint8))
    tagged(ramp, tmp_path / "a.jpg", tag, quality=100, subsampling=0)
    for factor in (1, 2, 4, 8):
        box = (3, 5, 3 + 200, 5 + 200)
        size = 200 // factor
        expected = np.asarray(ramp.resize((size, size), Image.Resampling.BOX, box=box), np.float64)
        seen = open_view(tmp_path / "a.jpg", lambda _w, _h, box=box: box, size)
        error = (np.asarray(seen, np.float64) - expected)[2:-2, 2:-2, :2]
        assert np.abs(error.mean((0, 1))).max() < 0.6, (factor, error.mean((0, 1)))


def test_a_reduced_decode_is_near_the_full_one(tmp_path: Path) -> None:
    image = scene(1280, 960)
    image.save(tmp_path / "a.jpg", quality=95)
    exact = np.asarray(
        Image.open(tmp_path / "a.jpg").resize(
            (100, 100), Image.Resampling.BILINEAR, box=(160, 0, 1120, 960)
        ),
        np.float64,
    )
    seen = read_eval(tmp_path / "a.jpg", EvalView(size=100, crop=1.0))
    assert np.sqrt(np.mean((seen - exact) ** 2)) < 1.5


@pytest.mark.parametrize("side", [1, 2, 3])
@pytest.mark.parametrize("name", ["a.png", "a.jpg", "a.gif", "a.webp"])
def test_the_smallest_pictures_work(tmp_path: Path, name: str, side: int) -> None:
    Image.new("RGB", (side, 1), (250, 250, 250)).save(tmp_path / name)
    for seed in range(5):
        seen = read_train(tmp_path / name, train_view(), stream(seed))
        assert seen.shape == (24, 24, 3)
    assert read_eval(tmp_path / name, WHOLE).min() > 245


def test_the_first_frame_of_an_animation_counts(tmp_path: Path) -> None:
    frames = [Image.new("RGB", (20, 20), colour) for colour in ("red", "lime", "blue")]
    for name in ("a.gif", "a.png", "a.webp", "a.tif"):
        options: dict[str, Any] = {"lossless": True} if name.endswith("webp") else {}
        frames[0].save(tmp_path / name, save_all=True, append_images=frames[1:], **options)
        assert read_eval(tmp_path / name, WHOLE)[5, 5].tolist() == [255, 0, 0], name


def test_the_content_decides_not_the_extension(tmp_path: Path) -> None:
    scene(40, 30).save(tmp_path / "real.png")
    (tmp_path / "photo.jpg").write_bytes((tmp_path / "real.png").read_bytes())
    np.testing.assert_array_equal(
        read_eval(tmp_path / "photo.jpg", WHOLE), read_eval(tmp_path / "real.png", WHOLE)
    )


def test_one_thread_and_eight_give_the_same_bytes(tmp_path: Path) -> None:
    names = [
        f"{i}.{kind}" for i, kind in enumerate(["jpg", "png", "webp", "gif", "tif", "bmp"] * 4)
    ]
    for seed, name in enumerate(names):
        scene(300 + seed, 200, seed).save(tmp_path / name)

    def read(job: int) -> bytes:
        rng = stream(7, 3, job)
        return read_train(tmp_path / names[job % len(names)], train_view(), rng).tobytes()

    alone = [read(job) for job in range(96)]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(read, range(96))) == alone
    assert len(set(alone)) == 96


COLD_START = """
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from shanty.data.views import EvalView, read_eval
path = Path(sys.argv[1])
look = lambda _: read_eval(path, EvalView(size=8, crop=1.0)).tobytes()
with ThreadPoolExecutor(16) as pool:
    print(len(set(pool.map(look, range(64)))))
"""
LOUD = """
import sys
from pathlib import Path
from typing import Any
from shanty.data.views import EvalView, read_eval
for name in sys.argv[1:]:
    read_eval(Path(name), EvalView(size=8, crop=1.0))
"""


def run_python(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", "-c", code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_formats_are_known_to_the_first_thread_that_asks(tmp_path: Path) -> None:
    scene(20, 20).save(tmp_path / "a.webp")
    done = run_python(COLD_START, str(tmp_path / "a.webp"))
    assert (done.returncode, done.stdout) == (0, "1\n"), done.stderr


def test_what_pillow_warns_about_is_read_in_silence(tmp_path: Path) -> None:
    Image.new("1", (9500, 9500)).save(tmp_path / "large.png")  # above Pillow's warning level
    palette = scene(16, 16).quantize(8)
    palette.save(tmp_path / "palette.png", transparency=bytes([0, 128, 255]))
    exif = b"Exif\0\0II*\0\x08\0\0\0\x05\0\x12\x01"
    scene(16, 16).save(tmp_path / "exif.jpg", exif=exif)
    done = run_python(LOUD, *(str(path) for path in sorted(tmp_path.iterdir())))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_description_is_plain_text_and_repeats() -> None:
    said = describe()
    assert said == describe()
    assert set(said) == {"decoder", "libjpeg", "resize", "rules"}
    assert said["decoder"].startswith("pillow-draft ")
    assert all(isinstance(value, str) and value for value in said.values())
