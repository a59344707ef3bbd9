"""Crop geometry and the two views."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pictures import scene, stream
from shanty.data.decode import Box
from shanty.data.views import (
    EvalView,
    TrainView,
    centre_box,
    random_box,
    read_eval,
    read_train,
)

SIDES = st.integers(1, 6000)
PLAIN = TrainView(size=32, min_area=0.35, hflip=0.0, jitter=0.0, randaugment=0, magnitude=9)


def inside(box: Box, width: int, height: int) -> bool:
    left, top, right, bottom = box
    return 0 <= left < right <= width and 0 <= top < bottom <= height


@given(SIDES, SIDES, st.floats(0.01, 1), st.integers())
def test_a_random_box_lies_in_the_picture(
    width: int, height: int, min_area: float, seed: int
) -> None:
    assert inside(random_box(width, height, min_area=min_area, rng=stream(seed)), width, height)


@given(st.integers(100, 4000), st.floats(0.8, 1.25), st.floats(0.05, 0.9), st.integers())
def test_area_and_shape_of_a_random_box_keep_their_limits(
    width: int, shape: float, min_area: float, seed: int
) -> None:
    """Rounding moves a side by half a pixel: 5 % at the smallest box (20 pixels)."""
    height = round(width * shape)
    left, top, right, bottom = random_box(width, height, min_area=min_area, rng=stream(seed))
    area, ratio = (right - left) * (bottom - top), (right - left) / (bottom - top)
    assert min_area * 0.93 <= area / (width * height) <= 1
    assert 0.75 * 0.93 <= ratio <= 4 / 3 * 1.07


def test_random_boxes_spread_evenly() -> None:
    """4,000 boxes: areas uniform from 0.1 to 0.5 where all fit, places to every side."""
    boxes = np.array(
        [random_box(600, 600, min_area=0.1, rng=stream(7, 1, n)) for n in range(4000)], np.float64
    )
    left, top, right, bottom = boxes.T
    areas = (right - left) * (bottom - top) / 600**2
    counts = np.histogram(areas[areas < 0.5], bins=8, range=(0.1, 0.5))[0]
    assert counts.min() > 0.8 * counts.mean()  # a standard deviation is about 5 % here
    assert counts.max() < 1.2 * counts.mean()
    assert areas.max() > 0.9
    shapes = np.log((right - left) / (bottom - top))
    assert abs(shapes.mean()) < 0.02
    assert abs((left + right).mean() / 1200 - 0.5) < 0.01
    assert abs((top + bottom).mean() / 1200 - 0.5) < 0.01
    assert left.min() == top.min() == 0
    assert right.max() == bottom.max() == 600


@pytest.mark.parametrize(
    ("width", "height", "box"),
    [(9, 2000, (0, 994, 9, 1006)), (2000, 9, (994, 0, 1006, 9)), (1, 5000, (0, 2499, 1, 2500))],
)
def test_where_no_shape_fits_the_centre_is_taken(width: int, height: int, box: Box) -> None:
    assert random_box(width, height, min_area=0.9, rng=stream(0)) == box


@given(SIDES, SIDES, st.integers())
def test_a_least_area_of_one_is_the_centre_square_without_a_draw(
    width: int, height: int, seed: int
) -> None:
    rng = stream(seed)
    box = random_box(width, height, min_area=1.0, rng=rng)
    assert box == centre_box(width, height, crop=1.0)
    assert rng.random() == stream(seed).random()


@given(SIDES, SIDES, st.floats(0.1, 1))
def test_the_centre_box_is_a_centred_square(width: int, height: int, crop: float) -> None:
    box = centre_box(width, height, crop=crop)
    left, top, right, bottom = box
    assert inside(box, width, height)
    assert right - left == bottom - top == max(1, round(crop * min(width, height)))
    assert 0 <= (width - right) - left <= 1
    assert 0 <= (height - bottom) - top <= 1


@pytest.fixture
def photo(tmp_path: Path) -> Path:
    scene(420, 310).save(tmp_path / "photo.jpg", quality=92)
    return tmp_path / "photo.jpg"


def test_views_are_writable_contiguous_bytes(photo: Path) -> None:
    seen = [read_eval(photo, EvalView(size=s, crop=0.9)) for s in (8, 97, 500)]
    seen += [read_train(photo, PLAIN, stream(0))]
    for view, size in zip(seen, (8, 97, 500, 32), strict=True):
        assert (view.shape, view.dtype) == ((size, size, 3), np.uint8)
        assert view.flags.c_contiguous
        assert view.flags.writeable


def test_a_smaller_crop_shows_less(photo: Path) -> None:
    """Red grows from left to right: a crop that keeps less of it has a smaller range."""
    ranges = []
    for crop in (0.2, 0.6, 1.0):
        row = read_eval(photo, EvalView(size=32, crop=crop))[..., 0].mean(0)
        ranges.append(float(row[-1] - row[0]))
    expected = [200 * 310 / 420 * crop for crop in (0.2, 0.6, 1.0)]
    assert ranges == pytest.approx(expected, abs=8)


def test_a_flipped_view_is_the_mirror_image(photo: Path) -> None:
    plain = read_eval(photo, EvalView(size=32, crop=0.9))
    flipped = read_eval(photo, EvalView(size=32, crop=0.9, flip=True))
    np.testing.assert_array_equal(flipped, plain[:, ::-1])


def test_training_without_variation_sees_the_evaluation_view(photo: Path) -> None:
    still = TrainView(size=32, min_area=1.0, hflip=0.0, jitter=0.0, randaugment=0, magnitude=9)
    np.testing.assert_array_equal(
        read_train(photo, still, stream(1)), read_eval(photo, EvalView(size=32, crop=1.0))
    )


def test_equal_streams_give_equal_bytes_and_others_differ(photo: Path) -> None:
    def views() -> list[bytes]:
        names = [(seed, epoch, sample) for seed in (0, 1) for epoch in (0, 1) for sample in (3, 4)]
        return [read_train(photo, PLAIN, stream(*name)).tobytes() for name in names]

    first = views()
    assert first == views()
    assert len(set(first)) == 8


def test_only_the_given_stream_is_drawn_from(photo: Path) -> None:
    full = TrainView(size=32, min_area=0.2, hflip=0.5, jitter=0.4, randaugment=3, magnitude=9)
    random.seed(5)
    np.random.seed(5)
    expected = random.random(), np.random.random()
    random.seed(5)
    np.random.seed(5)
    for seed in range(30):
        read_train(photo, full, stream(seed))
    assert (random.random(), np.random.random()) == expected


def test_half_of_the_views_are_flipped(photo: Path) -> None:
    """400 coins: within 4 standard deviations."""
    view = TrainView(size=8, min_area=1.0, hflip=0.5, jitter=0, randaugment=0, magnitude=0)
    rising = [
        bool(np.ptp(row := read_train(photo, view, stream(n))[..., 0].mean(0)) and row[-1] > row[0])
        for n in range(400)
    ]
    assert 160 < sum(rising) < 240
