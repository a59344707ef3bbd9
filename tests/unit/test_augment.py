"""Variations: what each may change, by how much, and from which stream."""

from __future__ import annotations

from collections import Counter

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from pictures import scene, stream
from shanty.data import augment

PHOTO = scene(64, 64)


def pixels(image: Image.Image) -> npt.NDArray[np.float64]:
    return np.asarray(image, np.float64)


def distance(image: Image.Image) -> float:
    return float(np.abs(pixels(image) - pixels(PHOTO)).mean())


def test_flip_happens_with_its_probability() -> None:
    assert augment.flip(PHOTO, 0.0, stream(0)) is PHOTO
    mirrored = pixels(augment.flip(PHOTO, 1.0, stream(0)))
    np.testing.assert_array_equal(mirrored, pixels(PHOTO)[:, ::-1])
    flipped = sum(augment.flip(PHOTO, 0.25, stream(n)) is not PHOTO for n in range(2000))
    assert 420 < flipped < 580  # 500, within 4 standard deviations


def test_no_jitter_changes_and_draws_nothing() -> None:
    rng = stream(3)
    assert augment.jitter(PHOTO, 0.0, rng) is PHOTO
    assert augment.randaugment(PHOTO, 0, 9, rng) is PHOTO
    assert rng.random() == stream(3).random()


@pytest.mark.parametrize("strength", [0.1, 0.4, 1.0])
def test_jitter_stays_within_its_strength(strength: float) -> None:
    """On flat grey only brightness shows: contrast and saturation leave it as it is."""
    grey = Image.new("RGB", (8, 8), (100, 100, 100))
    levels = [pixels(augment.jitter(grey, strength, stream(n))).mean() for n in range(300)]
    assert min(levels) >= 100 * (1 - strength) - 1
    assert max(levels) <= 100 * (1 + strength) + 1
    assert np.ptp(levels) > 1.9 * strength * 100 * 0.9
    assert abs(np.mean(levels) - 100) < 12 * strength


def test_jitter_reaches_contrast_and_saturation_too() -> None:
    changed = [pixels(augment.jitter(PHOTO, 0.5, stream(n))) for n in range(60)]
    spread = [float(image.std(axis=(0, 1)).mean()) for image in changed]
    colour = [float(np.ptp(image, axis=2).mean()) for image in changed]
    assert np.ptp(spread) > 20
    assert np.ptp(colour) > 20


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 10), st.floats(0, 10), st.integers())
def test_randaugment_gives_a_picture_of_the_same_size_and_repeats(
    count: int, magnitude: float, seed: int
) -> None:
    first = augment.randaugment(PHOTO, count, magnitude, stream(seed))
    again = augment.randaugment(PHOTO, count, magnitude, stream(seed))
    assert (first.size, first.mode) == (PHOTO.size, "RGB")
    assert first.tobytes() == again.tobytes()


def test_randaugment_draws_from_14_operations_evenly() -> None:
    seen = Counter(
        augment.randaugment(PHOTO, 1, 9, stream(n)).tobytes() for n in range(2800)
    ).values()
    # identity, auto contrast, equalize, posterize and solarize have one result, the others two
    assert len(seen) == 5 + 2 * 9
    halves, wholes = sorted(seen)[:18], sorted(seen)[18:]
    assert 60 <= min(halves) <= max(halves) <= 145  # 100 each; 4 standard deviations are 39
    assert 145 <= min(wholes) <= max(wholes) <= 255  # 200 each; 4 standard deviations are 55


OPERATIONS = list(range(14))


@pytest.mark.parametrize("index", OPERATIONS)
@pytest.mark.parametrize("sign", [-1, 1])
def test_an_operation_grows_with_the_magnitude(index: int, sign: int) -> None:
    change = augment._OPERATIONS[index]
    distances = [distance(change(PHOTO, sign * m / 10)) for m in (0, 3, 6, 10)]
    steady = index < 3  # identity, auto contrast and equalize know no strength
    assert (len(set(distances)) == 1) == steady
    if not steady:
        assert distances[0] == 0, "magnitude 0 changes nothing"
        assert distances == sorted(distances)
        assert distances[-1] > 1


def test_moves_go_both_ways_and_uncover_grey() -> None:
    white = Image.new("RGB", (331, 331), (255, 255, 255))
    for index, axis in ((6, 1), (7, 0)):
        change = augment._OPERATIONS[index]
        for level, uncovered in ((1.0, slice(-99, None)), (-1.0, slice(0, 99))):
            moved = np.moveaxis(pixels(change(white, level)), axis, 0)
            assert (moved[uncovered] == 128).all()
            assert (moved == 128).all(axis=(1, 2)).sum() == pytest.approx(100, abs=1)


def test_the_strongest_posterize_and_solarize_are_those_of_the_paper() -> None:
    posterize, solarize = augment._OPERATIONS[8], augment._OPERATIONS[9]
    np.testing.assert_array_equal(pixels(posterize(PHOTO, 1.0)), pixels(PHOTO) // 16 * 16)
    np.testing.assert_array_equal(pixels(solarize(PHOTO, 1.0)), 255 - pixels(PHOTO))
