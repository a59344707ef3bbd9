"""How fast it goes and how long it will take: from the last steps, robust against one slow step."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable
from statistics import median

from shanty.record.events import Banner, StepDone, Validated


class Pace:
    """Keeps the last steps. All times in seconds, all counts in steps or images."""

    def __init__(self, window: int = 50) -> None:
        self._steps: deque[StepDone] = deque(maxlen=window)
        self._validation = 0.0
        self._epoch: list[StepDone] = []
        self.epochs = 0
        self.per_epoch = 0
        self.done = 0
        self.loss = math.nan

    def begin(self, banner: Banner) -> None:
        """Learn how much there is to do."""
        self.epochs, self.per_epoch = banner.epochs, banner.steps_per_epoch
        self.done = banner.first_step

    def step(self, number: int, step: StepDone) -> None:
        """Count a committed step; ``number`` is the global one, from 1."""
        self._steps.append(step)
        self._epoch.append(step)
        self.done = number
        if math.isfinite(step.loss):  # the loss is read only now and then
            self.loss = step.loss

    def validated(self, result: Validated) -> None:
        """Learn how long a validation takes."""
        self._validation = result.seconds

    @property
    def total(self) -> int:
        """Steps of the whole run."""
        return self.epochs * self.per_epoch

    @property
    def images_per_second(self) -> float:
        """Images over all ranks, mean over the last steps; 0 when unknown."""
        return _rate(self._steps)

    def end_epoch(self) -> float:
        """Images per second over the epoch's steps, without its validation; 0 when unknown."""
        rate = _rate(self._epoch)
        self._epoch.clear()
        return rate

    def seconds_left(self) -> float | None:
        """Median step time for every step to come, and one validation per epoch to come."""
        if not self._steps or not self.total:
            return None
        left = max(0, self.total - self.done)
        epochs = left / self.per_epoch
        return left * median(s.wall for s in self._steps) + math.ceil(epochs) * self._validation


def _rate(steps: Iterable[StepDone]) -> float:
    images, wall = 0, 0.0
    for step in steps:
        images, wall = images + step.images, wall + step.wall
    return images / wall if wall > 0 else 0.0
