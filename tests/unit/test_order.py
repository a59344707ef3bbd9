"""The order of an epoch: a real permutation, never the same twice, and never another tomorrow."""

from __future__ import annotations

from collections import Counter
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shanty.data.order import mix, permutation

MASK = (1 << 64) - 1
WORDS = st.integers(-(2**70), 2**70)


class SplitMix64:
    """The generator of Steele, Lea and Flood, one number at a time, as a second opinion."""

    def __init__(self, seed: int) -> None:
        self.state = seed & MASK

    def next(self) -> int:
        self.state = (self.state + 0x9E3779B97F4A7C15) & MASK
        z = self.state
        z = ((z ^ z >> 30) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ z >> 27) * 0x94D049BB133111EB) & MASK
        return z ^ z >> 31


def mix_slowly(*words: int) -> int:
    state = 0
    for word in words:
        state = SplitMix64(state ^ (word & MASK)).next()
    return state


def permute_slowly(seed: int, epoch: int, images: int) -> list[int]:
    generator = SplitMix64(mix_slowly(seed, epoch, images))
    keys = [generator.next() for _ in range(images)]
    return sorted(range(images), key=keys.__getitem__)


def test_the_second_opinion_is_the_published_generator() -> None:
    generator = SplitMix64(1234567)
    assert [generator.next() for _ in range(5)] == [
        6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431,
        16408922859458223821,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("words", "number"),
    [
        ((0,), 0xE220A8397B1DCDAF),
        ((1,), 0x910A2DEC89025CC1),
        ((-1,), 0xE4D971771B652C20),
        ((0, 3, 1, 2), 0xB3073E73E5D6352B),
        ((2**63 - 1, 1), 0xD1448F4D0B0BE7BC),
        ((5, 2, 0, 41), 0x31506A10ED105351),
    ],
)
def test_mixed_numbers_are_pinned(words: tuple[int, ...], number: int) -> None:
    assert mix(*words) == number


@pytest.mark.parametrize(
    ("seed", "epoch", "images", "order"),
    [
        (0, 0, 8, [7, 5, 2, 1, 0, 3, 6, 4]),
        (0, 1, 8, [5, 2, 0, 4, 3, 6, 7, 1]),
        (1, 0, 8, [0, 5, 4, 7, 6, 1, 3, 2]),
        (7, 3, 12, [5, 2, 7, 0, 8, 6, 10, 1, 4, 3, 9, 11]),
        (2**63 - 1, 9, 5, [1, 0, 2, 4, 3]),
        (0, 0, 1, [0]),
        (0, 0, 0, []),
    ],
)
def test_orders_are_pinned(seed: int, epoch: int, images: int, order: list[int]) -> None:
    """A resumed run must go on in the same order: these may never change."""
    assert permutation(seed, epoch, images).tolist() == order


@settings(deadline=None)
@given(st.lists(WORDS, max_size=5))
def test_mix_agrees_with_the_second_opinion(words: list[int]) -> None:
    assert mix(*words) == mix_slowly(*words)
    assert 0 <= mix(*words) <= MASK


@settings(deadline=None)
@given(st.integers(0, 2**63 - 1), st.integers(0, 1000), st.integers(0, 200))
def test_an_order_holds_every_image_once_and_agrees_with_the_second_opinion(
    seed: int, epoch: int, images: int
) -> None:
    order = permutation(seed, epoch, images)
    assert order.dtype == np.int64
    assert np.array_equal(np.sort(order), np.arange(images))
    assert order.tolist() == permute_slowly(seed, epoch, images)


def test_a_large_order_is_a_permutation_too() -> None:
    np.testing.assert_array_equal(np.sort(permutation(3, 2, 200_000)), np.arange(200_000))


def test_no_two_epochs_and_no_two_seeds_share_an_order() -> None:
    orders = {permutation(s, e, 40).tobytes() for s, e in product(range(8), range(8))}
    assert len(orders) == 64


def test_words_do_not_commute_and_none_is_lost() -> None:
    assert mix(1, 2) != mix(2, 1)
    assert mix(1) != mix(1, 0) != mix(1, 0, 0)
    numbers = {mix(*words) for words in product(range(10), repeat=3)}
    assert len(numbers) == 1000


def test_every_image_comes_to_every_place_equally_often() -> None:
    orders = [permutation(seed, epoch, 6) for seed in range(60) for epoch in range(100)]
    for place in range(6):
        seen = Counter(int(order[place]) for order in orders)
        assert all(880 <= seen[image] <= 1120 for image in range(6))  # 1000, 4 deviations: 115


def test_neighbours_are_drawn_apart() -> None:
    order = permutation(0, 0, 10_000)
    assert abs(np.corrcoef(order[:-1], order[1:])[0, 1]) < 0.04  # 4 deviations
    assert abs(np.corrcoef(permutation(0, 1, 10_000), order)[0, 1]) < 0.04
