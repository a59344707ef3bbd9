"""Validation on all ranks: one exact result, whatever the number of ranks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from shanty.comm.world import World
from shanty.data.views import EvalView
from shanty.scan.dataset import Sample
from shanty.spec.config import RunConfig
from shanty.train.feed import EvalReader
from shanty.train.infer import Asked, Network, infer
from shanty.train.metrics import Metrics, measure


@dataclass(frozen=True, kw_only=True)
class Measured:
    """Metrics over the good images; ``bad`` maps the path of each unusable image to its reason."""

    metrics: Metrics
    bad: dict[str, str]


@dataclass(frozen=True, kw_only=True)
class Watch:
    """How a long evaluation reports and is stopped."""

    on_progress: Callable[[int], None]
    should_stop: Callable[[], bool]


@dataclass(frozen=True, kw_only=True)
class Exam:
    """What is asked: labelled samples, read from ``root`` with the run's view."""

    root: str
    samples: tuple[Sample, ...]
    config: RunConfig
    threads: int


def evaluate(network: Network, exam: Exam, world: World, watch: Watch) -> Measured | None:
    """Measure ``network`` on labelled samples; None when it was stopped in between.

    All ranks return rank 0's numbers: between unlike processors the last digits could differ,
    and every rank must take the same decision.
    """
    samples, config = exam.samples, exam.config
    view = EvalView(size=config.data.size, crop=config.data.crop)
    asked = Asked(
        count=len(samples),
        read=EvalReader(exam.root, tuple(s.path for s in samples), view),
        size=config.data.size,
        batch=config.validate.batch,
        threads=exam.threads,
        limit=config.data.wait_limit,
    )
    answer = infer(
        network, asked, world, on_progress=watch.on_progress, should_stop=watch.should_stop
    )
    if answer is None:
        return None
    good = torch.tensor([i for i in range(len(samples)) if i not in answer.bad], dtype=torch.int64)
    labels = torch.tensor([s.label for s in samples], dtype=torch.int64)
    mine = measure(answer.logits[good], labels[good])
    row = [mine.count, mine.accuracy, mine.top5, mine.log_loss, mine.macro_f1]
    count, accuracy, top5, log_loss, macro_f1 = world.gather(row)[0]
    metrics = Metrics(
        count=int(count), accuracy=accuracy, top5=top5, log_loss=log_loss, macro_f1=macro_f1
    )
    return Measured(metrics=metrics, bad={samples[i].path: r for i, r in answer.bad.items()})
