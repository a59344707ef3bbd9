"""Runs whose classes stand in another order are lined up by name."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shanty.errors import RefusedError
from shanty.predict.averaging import align, average


@given(st.permutations(["cat", "dog", "owl", "고양이"]))
def test_a_permutation_is_undone_by_name(classes: list[str]) -> None:
    first = ("cat", "dog", "owl", "고양이")
    order = align(first, classes)
    assert tuple(classes[i] for i in order) == first


def test_composed_and_decomposed_names_are_the_same_class() -> None:
    assert align(("고양이", "개"), (unicodedata.normalize("NFD", "개"), " 고양이")) == (1, 0)


def test_different_classes_are_refused_with_the_differing_names_only() -> None:
    with pytest.raises(RefusedError, match="same classes") as caught:
        align(("cat", "dog", "owl"), ("cat", "owl", "bat", "elk"))
    assert "1 ('dog')" in caught.value.what
    assert "2 ('bat', 'elk')" in caught.value.what
    assert "owl" not in caught.value.what


def test_a_missing_class_is_refused() -> None:
    with pytest.raises(RefusedError, match="dog"):
        align(("cat", "dog"), ("cat",))


def test_one_name_for_two_classes_is_refused() -> None:
    with pytest.raises(RefusedError, match="the same name"):
        align(("cat", "dog"), ("cat", "cat "))


def test_the_average_adds_in_the_order_of_the_runs() -> None:
    rows = [[0.1, 0.7], [0.2, 0.1], [0.3, 0.2]]
    assert average(rows) == (((0.1 + 0.2) + 0.3) / 3, ((0.7 + 0.1) + 0.2) / 3)
    # the case in which a compensated sum has other last bits than plain additions
    assert average([[1.0], [1e-16], [1e-16]]) == (1.0 / 3,)


def test_one_run_is_its_own_average() -> None:
    assert average([[0.25, 0.75]]) == (0.25, 0.75)


@pytest.mark.parametrize("rows", [[], [[0.5, 0.5], [1.0]], [[1.0], [0.5, 0.5]]])
def test_rows_that_cannot_be_averaged_are_a_callers_error(rows: list[list[float]]) -> None:
    with pytest.raises(ValueError, match="row"):
        average(rows)
