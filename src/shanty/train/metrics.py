"""Exact metrics from logits, summed in sample order in float64."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch


@dataclass(frozen=True, kw_only=True)
class Metrics:
    """Over ``count`` images; ``top5`` is top-5 accuracy (1.0 with five classes or less)."""

    count: int
    accuracy: float
    top5: float
    log_loss: float
    macro_f1: float

    def better(self, other: Metrics | None, metric: str) -> bool:
        """Strictly better than ``other`` by ``metric``; log loss counts downwards.

        Equal values are told apart by the log loss: on a small validation set the accuracy of
        many epochs is the same. A number is better than none (NaN), or a run that once diverged
        could never have a best one.
        """
        if other is None:
            return True
        mine, its = getattr(self, metric), getattr(other, metric)
        if math.isnan(its):
            return not math.isnan(mine)
        if mine == its:
            return self.log_loss < other.log_loss
        return mine < its if metric == "log_loss" else mine > its


def measure(logits: torch.Tensor, labels: torch.Tensor) -> Metrics:
    """Metrics of float32 logits [n, classes] against int64 labels [n], both in sample order.

    Macro F1 is the mean of the classes' F1 over classes that occur in labels or predictions
    (sklearn's definition).
    """
    count, classes = logits.shape
    if count == 0:
        nan = math.nan
        return Metrics(count=0, accuracy=nan, top5=nan, log_loss=nan, macro_f1=nan)
    predicted = logits.argmax(1)
    log_p = torch.log_softmax(logits.double(), dim=1)
    own = log_p.gather(1, labels[:, None])[:, 0]
    # How many classes come before the true one: those that score higher (NaN does), and of equal
    # ones those of a lower index, as argmax has it.
    score = logits.gather(1, labels[:, None])
    earlier = torch.arange(classes) < labels[:, None]
    ahead = (~(logits <= score) | ((logits == score) & earlier)).sum(1)
    return Metrics(
        count=count,
        accuracy=int((predicted == labels).sum()) / count,
        top5=int((ahead < 5).sum()) / count,
        log_loss=-math.fsum(own.tolist()) / count,
        macro_f1=_macro_f1(predicted, labels, classes),
    )


def _macro_f1(predicted: torch.Tensor, labels: torch.Tensor, classes: int) -> float:
    hits = torch.bincount(labels[predicted == labels], minlength=classes).tolist()
    said = torch.bincount(predicted, minlength=classes).tolist()
    true = torch.bincount(labels, minlength=classes).tolist()
    scores = [2 * h / (s + t) for h, s, t in zip(hits, said, true, strict=True) if s + t]
    return math.fsum(scores) / len(scores)
