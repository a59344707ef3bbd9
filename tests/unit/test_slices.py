"""Slices: every image once per epoch, equal shares, and no batch of one where it can be helped."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from shanty.spec.slices import deal, share_of, slice_of, split_micro, steps_per_epoch

IMAGES, BATCHES, RANKS = st.integers(1, 500), st.integers(1, 80), st.integers(1, 9)


@pytest.mark.parametrize(
    ("images", "batch", "slices"),
    [
        (1, 4, [(0, 1)]),
        (4, 4, [(0, 4)]),
        (5, 4, [(0, 5)]),
        (6, 4, [(0, 4), (4, 6)]),
        (9, 4, [(0, 4), (4, 9)]),
        (3, 1, [(0, 1), (1, 2), (2, 3)]),
        (3, 2, [(0, 3)]),
        (65, 32, [(0, 32), (32, 65)]),
        (66, 32, [(0, 32), (32, 64), (64, 66)]),
    ],
)
def test_an_epoch_is_cut_like_this(images: int, batch: int, slices: list[tuple[int, int]]) -> None:
    assert [slice_of(images, batch, s) for s in range(len(slices))] == slices
    assert steps_per_epoch(images, batch) == len(slices)


@settings(deadline=None)
@given(IMAGES, BATCHES, RANKS)
@example(65, 32, 2)
@example(2, 1, 3)
def test_every_image_is_computed_exactly_once_at_any_world_size(
    images: int, batch: int, ranks: int
) -> None:
    taken: list[int] = []
    for step in range(steps_per_epoch(images, batch)):
        bounds = slice_of(images, batch, step)
        for rank in range(ranks):
            taken += range(*share_of(bounds, rank, ranks))
    assert taken == list(range(images))


@settings(deadline=None)
@given(IMAGES, BATCHES)
@example(5, 4)
def test_a_step_takes_a_batch_and_never_one_single_image(images: int, batch: int) -> None:
    sizes = [stop - start for start, stop in _slices(images, batch)]
    assert all(size == batch for size in sizes[:-1])
    assert sizes[-1] <= batch + 1
    if batch > 1 and images > 1:
        assert 1 not in sizes


def _slices(images: int, batch: int) -> list[tuple[int, int]]:
    return [slice_of(images, batch, s) for s in range(steps_per_epoch(images, batch))]


@settings(deadline=None)
@given(st.integers(0, 500), RANKS)
def test_shares_sum_to_the_slice_and_are_as_equal_as_may_be(count: int, ranks: int) -> None:
    shares = deal(count, ranks)
    assert len(shares) == ranks
    assert sum(shares) == count
    active = [share for share in shares if share]
    assert max(active, default=0) - min(active, default=0) <= 1
    assert shares == sorted(shares, reverse=True), "the idle ranks are the last ones"


@settings(deadline=None)
@given(st.integers(2, 500), RANKS)
@example(3, 3)
@example(64, 64)
def test_no_rank_gets_a_share_of_one_and_no_more_ranks_idle_than_that_needs(
    count: int, ranks: int
) -> None:
    shares = deal(count, ranks)
    assert 1 not in shares
    assert len([s for s in shares if s]) == min(ranks, count // 2)


def test_one_image_goes_to_one_rank_and_none_to_nobody() -> None:
    assert deal(1, 3) == [1, 0, 0]
    assert deal(0, 3) == [0, 0, 0]


@pytest.mark.parametrize("images", range(60, 71))
@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_65_images_and_their_neighbours_never_meet_batch_norm_alone(
    images: int, ranks: int
) -> None:
    sizes = [size for a, b in _slices(images, 32) for size in deal(b - a, ranks)]
    assert sum(sizes) == images
    assert 1 not in sizes


@settings(deadline=None)
@given(st.integers(1, 500), st.integers(1, 70))
@example(3, 2)
@example(5, 4)
def test_micro_batches_hold_what_a_device_may_hold(count: int, micro: int) -> None:
    sizes = split_micro(count, micro)
    assert sum(sizes) == count
    assert max(sizes) - min(sizes) <= 1
    assert len(sizes) <= -(-count // micro), "no more passes than the memory asks for"
    only_threes_help = micro == 2 and count % 2 == 1 and count > 1
    assert max(sizes) <= (3 if only_threes_help else micro)


@settings(deadline=None)
@given(st.integers(2, 500), st.integers(2, 70))
@example(3, 2)
def test_no_micro_batch_is_one_single_image(count: int, micro: int) -> None:
    assert 1 not in split_micro(count, micro)


def test_micro_batches_of_one_only_where_they_were_asked_for() -> None:
    assert split_micro(3, 1) == [1, 1, 1]
    assert split_micro(1, 8) == [1]


def test_without_a_bound_a_share_is_one_micro_batch_and_no_share_is_none() -> None:
    assert split_micro(37, None) == [37]
    assert split_micro(0, 4) == split_micro(0, None) == []


def test_what_makes_no_sense_is_refused() -> None:
    for images, batch in ((0, 4), (4, 0)):
        with pytest.raises(ValueError, match="at least one image"):
            steps_per_epoch(images, batch)
    for step in (-1, 3):
        with pytest.raises(ValueError, match="outside the epoch's 3 steps"):
            slice_of(10, 4, step)
    with pytest.raises(ValueError, match="at least one rank"):
        deal(4, 0)
