"""The learning rate's way: up in a line, down in half a cosine, to where it was told to end."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shanty.spec.schedule import rate_factor

TOTALS = st.integers(1, 300)


def curve(total: int, warmup: int, final: float) -> list[float]:
    return [rate_factor(step, total, warmup, final) for step in range(total)]


def test_the_whole_curve_by_hand() -> None:
    rising = [0.25, 0.5, 0.75]
    falling = [1.0, 0.8535534, 0.5, 0.1464466, 0.0]  # (1 + cos(k pi / 4)) / 2
    assert curve(8, 3, 0.0) == pytest.approx(rising + falling, abs=1e-6)
    assert curve(5, 0, 0.2) == pytest.approx([1.0, 0.8828427, 0.6, 0.3171573, 0.2], abs=1e-6)


@settings(deadline=None)
@given(TOTALS, st.integers(0, 300), st.floats(0, 1))
def test_it_rises_to_the_peak_then_falls_to_the_end(total: int, warmup: int, final: float) -> None:
    values = curve(total, warmup, final)
    assert all(0 <= v <= 1 for v in values)
    assert values[0] > 0, "the first step learns something"
    assert all(a < b for a, b in pairwise(values[:warmup]))
    assert all(a >= b for a, b in pairwise(values[warmup:]))
    if warmup < total:
        assert values[warmup] == 1
    if warmup + 1 < total:
        assert values[-1] == pytest.approx(final)


def test_a_warm_up_longer_than_the_training_just_rises() -> None:
    assert curve(3, 9, 0.0) == pytest.approx([0.1, 0.2, 0.3])


def test_a_training_of_one_step_runs_at_the_peak() -> None:
    assert curve(1, 0, 0.01) == [1.0]


def test_beyond_the_last_step_it_stays_at_the_end() -> None:
    assert rate_factor(50, 10, 2, 0.1) == pytest.approx(0.1)
