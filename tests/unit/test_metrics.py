"""Metrics: counted by hand, checked against scikit-learn, and equal whatever is summed first."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.metrics import accuracy_score, f1_score, log_loss, top_k_accuracy_score

from shanty.train.metrics import Metrics, measure


def logits_for(rows: list[list[float]]) -> torch.Tensor:
    """Logits whose softmax are these probabilities."""
    return torch.tensor(rows).log()


def test_four_images_by_hand() -> None:
    logits = logits_for([[0.7, 0.2, 0.1], [0.6, 0.3, 0.1], [0.1, 0.8, 0.1], [0.25, 0.5, 0.25]])
    found = measure(logits, torch.tensor([0, 1, 1, 2]))
    assert found.count == 4
    assert found.accuracy == 0.5
    assert found.top5 == 1.0
    expected = -(math.log(0.7) + math.log(0.3) + math.log(0.8) + math.log(0.25)) / 4
    assert found.log_loss == pytest.approx(expected, rel=1e-6)
    # class 0: 1 hit, said 2, true 1; class 1: 1 hit, said 2, true 2; class 2: none
    assert found.macro_f1 == pytest.approx((2 / 3 + 1 / 2 + 0) / 3)


def test_67_of_101_is_67_of_101() -> None:
    labels = torch.arange(101) % 4
    logits = torch.nn.functional.one_hot(labels, 4).float()
    logits[67:] = logits[67:].roll(1, dims=1)
    assert measure(logits, labels).accuracy == 67 / 101


@pytest.mark.parametrize("classes", [2, 3, 7, 40])
@pytest.mark.parametrize("count", [1, 5, 173])
def test_scikit_learn_agrees(classes: int, count: int) -> None:
    rng = torch.Generator().manual_seed(classes * count)
    logits = torch.randn(count, classes, generator=rng) * 3
    labels = torch.randint(0, classes, (count,), generator=rng)
    found = measure(logits, labels)
    names = np.arange(classes)
    probabilities = logits.double().softmax(1).numpy()
    predicted = logits.argmax(1)
    assert found.accuracy == accuracy_score(labels, predicted)
    assert found.log_loss == pytest.approx(log_loss(labels, probabilities, labels=names), rel=1e-9)
    expected = f1_score(labels, predicted, average="macro", zero_division=0)
    assert found.macro_f1 == pytest.approx(expected, rel=1e-12)
    if classes > 5:
        assert found.top5 == top_k_accuracy_score(labels, probabilities, k=5, labels=names)
    else:
        assert found.top5 == 1.0


def test_classes_that_never_occur_do_not_count_in_macro_f1() -> None:
    logits = torch.eye(10)[[1, 1, 2, 2]]
    labels = torch.tensor([1, 1, 2, 3])
    # class 1: 1; class 2: 2 * 1 / (2 + 1); class 3: 0; the other seven occur nowhere
    assert measure(logits, labels).macro_f1 == pytest.approx((1 + 2 / 3 + 0) / 3)


def test_an_undecided_network_is_not_praised_in_top5() -> None:
    """Equal scores go to the lower class, in top-5 as in top-1: 5 of 10 classes are within."""
    found = measure(torch.zeros(10, 10), torch.arange(10))
    assert found.accuracy == 0.1
    assert found.top5 == 0.5
    assert found.log_loss == pytest.approx(math.log(10))


def test_top5_is_the_fifth_and_not_the_sixth() -> None:
    logits = torch.arange(10.0).repeat(2, 1)
    assert measure(logits, torch.tensor([5, 4])).top5 == 0.5


def test_a_network_that_answers_nothing_is_never_right_in_top5() -> None:
    found = measure(torch.full((4, 10), math.nan), torch.tensor([3, 4, 5, 9]))
    assert (found.accuracy, found.top5) == (0.0, 0.0)
    assert math.isnan(found.log_loss)


def test_a_sure_and_wrong_network_has_a_large_loss_and_no_overflow() -> None:
    found = measure(torch.tensor([[1000.0, -1000.0]]), torch.tensor([1]))
    assert found.log_loss == 2000.0


def test_sums_do_not_lose_small_parts() -> None:
    """In float32 the seventh digit would be off already."""
    logits = torch.zeros(300_000, 2)
    found = measure(logits, torch.zeros(300_000, dtype=torch.int64))
    assert found.log_loss == pytest.approx(math.log(2), rel=1e-14)


def test_no_image_gives_no_number() -> None:
    found = measure(torch.zeros(0, 3), torch.zeros(0, dtype=torch.int64))
    assert found.count == 0
    for value in (found.accuracy, found.top5, found.log_loss, found.macro_f1):
        assert math.isnan(value)


GOOD = Metrics(count=9, accuracy=0.8, top5=1.0, log_loss=0.4, macro_f1=0.7)


@pytest.mark.parametrize(
    ("metric", "value"), [("accuracy", 0.9), ("macro_f1", 0.8), ("log_loss", 0.3)]
)
def test_better_is_strict_and_knows_which_way(metric: str, value: float) -> None:
    better = replace(GOOD, **{metric: value})  # type: ignore[bad-argument-type] # metric is no count
    assert better.better(GOOD, metric)
    assert not GOOD.better(better, metric)
    assert not GOOD.better(GOOD, metric)
    assert GOOD.better(None, metric)


@pytest.mark.parametrize("metric", ["accuracy", "macro_f1"])
def test_equals_are_told_apart_by_the_log_loss(metric: str) -> None:
    surer = replace(GOOD, log_loss=0.35)
    assert surer.better(GOOD, metric)
    assert not GOOD.better(surer, metric)


@pytest.mark.parametrize("metric", ["accuracy", "macro_f1", "log_loss"])
def test_a_number_is_better_than_none_and_never_the_other_way(metric: str) -> None:
    nothing = replace(GOOD, **{metric: math.nan})  # type: ignore[bad-argument-type] # as above
    assert GOOD.better(nothing, metric)
    assert not nothing.better(GOOD, metric)
    assert not nothing.better(nothing, metric)
