"""A zoo of odd files: each is a picture of the right shape or has a reason, by category.

The zoo is made up here; where the shared collection of real odd files is present, it is read too.
"""

from __future__ import annotations

import tarfile
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from pictures import small_zoo, stream
from shanty.data.decode import UndecodableError
from shanty.data.views import EvalView, TrainView, read_eval, read_train

ARCHIVE = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "awkward.tar.gz"
SOURCES = ["made up", *(["collected"] if ARCHIVE.is_file() else [])]
# Pytest undoes filters that are set at import. That reading is silent is shown in test_decode.py.
pytestmark = [
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning"),
]
VIEW = EvalView(size=64, crop=1.0)
VARIED = TrainView(size=64, min_area=0.1, hflip=0.5, jitter=0.3, randaugment=2, magnitude=9)

#: Categories in which every file is a picture.
GOOD = {"16bit", "alpha", "animated", "cmyk", "exif_rotated", "grayscale", "names", "other_ext"} | {
    "palette",
    "progressive",
    "tiny_or_thin",
}
#: Categories in which none is, and how the reason begins.
BAD = {
    "empty": "empty file",
    "junk": "not a picture",
    "truncated": "truncated: the file ends before the picture does",
}
#: Single files of mixed categories.
REASONS = {
    "all_zero_bytes.jpg": "only zero bytes",
    "first_bytes_zeroed.jpg": "not a picture",
    "broken.png": "not a picture",
    "corrupt-header.jpg": "truncated",
    "giant-image.jpg": "more than 178 megapixels",
    "65536-uint32-limit.png": "more than 178 megapixels",
    "limit.png": "more than 178 megapixels",
    "html_error_page.jpg": "a web page",
    "lfs_pointer.jpg": "a git-lfs pointer",
}
# Not every node's Pillow reads AVIF: refused everywhere, and by name
REASONS |= dict.fromkeys(("pitm.avif", "avif_named_jpg.jpg"), "format avif is not supported")
Seen = dict[str, NDArray[np.uint8] | str]


def unpacked(folder: Path) -> Path:
    """The collected cases, regular files only and by plain names below ``folder``."""
    with tarfile.open(ARCHIVE) as archive:
        for member in archive:
            path = Path(member.name)
            if not member.isfile() or path.is_absolute() or ".." in path.parts:
                continue
            source = archive.extractfile(member)
            assert source is not None
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(source.read())
    return folder / "awkward" / "cases"


def look(path: Path) -> NDArray[np.uint8] | str:
    try:
        return read_eval(path, VIEW)
    except UndecodableError as error:
        return error.reason


@pytest.fixture(scope="module", params=SOURCES)
def zoo(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("zoo")
    return small_zoo(folder) if request.param == "made up" else unpacked(folder)


@pytest.fixture(scope="module")
def seen(zoo: Path) -> Seen:
    return {
        path.relative_to(zoo).as_posix(): look(path)
        for path in sorted(zoo.rglob("*"))
        if path.is_file()
    }


def test_every_file_is_a_picture_or_has_a_reason(seen: Seen) -> None:
    assert len(seen) >= 20
    for name, result in seen.items():
        if isinstance(result, str):
            assert result, name
            assert "\n" not in result, name
        else:
            assert (result.shape, result.dtype) == ((64, 64, 3), np.uint8), name


def test_each_category_has_its_decided_result(seen: Seen) -> None:
    for name, result in seen.items():
        category, file = name.split("/", 1)
        said = result if isinstance(result, str) else ""
        begins = BAD.get(category) or REASONS.get(file, "")
        assert said.startswith(begins), (name, said)
        assert bool(said) == bool(begins), (name, said)
        assert not (category in GOOD and said and not begins), (name, said)


def test_training_refuses_the_same_files_for_the_same_reasons(zoo: Path, seen: Seen) -> None:
    for name, result in seen.items():
        try:
            shape = read_train(zoo / name, VARIED, stream(name)).shape
        except UndecodableError as error:
            assert error.reason == result  # noqa: PT017 - which files fail is what is compared
        else:
            assert not isinstance(result, str), name
            assert shape == (64, 64, 3)


def test_odd_pixels_have_the_decided_colours(seen: Seen) -> None:
    transparent = seen["alpha/full-transparent.png"]
    assert not isinstance(transparent, str)
    assert transparent.min() == 255
    for name, result in seen.items():
        if name.startswith("grayscale/"):
            assert not isinstance(result, str)
            assert (result == result[..., :1]).all(), name


def turns(image: NDArray[np.float64]) -> list[NDArray[np.float64]]:
    """All eight ways to lay a square picture; the first changes nothing."""
    mirrored = image[:, ::-1]
    return [np.rot90(each, n) for each in (image, mirrored) for n in range(4)]


@pytest.mark.parametrize("photo", ["Landscape", "hopper", "scene"])
def test_turned_copies_of_one_photo_are_all_upright(seen: Seen, photo: str) -> None:
    """Other programs made these files, so they are alike and not equal: no turn is nearer."""
    copies = [
        np.asarray(result, np.float64)
        for name, result in seen.items()
        if name.startswith(f"exif_rotated/{photo}")
    ]
    for other in copies[1:]:
        distances = [float(np.mean((turned - copies[0]) ** 2)) for turned in turns(other)]
        assert distances.index(min(distances)) == 0, distances
    assert len(copies) in (0, 3, 7)


def test_turned_copies_are_there(seen: Seen) -> None:
    assert len([name for name in seen if name.startswith("exif_rotated/")]) >= 3
