"""Voice: what one rank writes into its event file while it trains."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator

from shanty.comm.world import World
from shanty.data.loader import Batch
from shanty.errors import FailedError
from shanty.record.events import BadImage, EpochDone, EventLog, StepDone, StepSkipped, Validated
from shanty.train.evaluate import Measured
from shanty.train.feed import Feed
from shanty.train.state import TrainState
from shanty.train.step import Order, Outcome, Stepper


class Voice:
    """Writes steps, epochs and bad images. Rank 0 also speaks for the whole run.

    Args:
        log: this rank's event file.
        feed: names the images.
        world: which rank this is.
        weights: which weights are validated: ``model`` or ``ema``.
    """

    def __init__(self, log: EventLog, feed: Feed, world: World, weights: str) -> None:
        self.log, self.feed, self.world, self.weights = log, feed, world, weights
        self._named: set[str] = set()
        self._epoch_start = time.monotonic()
        self._validation_start = 0.0

    def listen(self, batches: Iterable[Batch]) -> Iterator[Batch]:
        """Pass the batches on, naming bad images the first time they are met.

        Raises:
            FailedError: a bad image, where the config says to refuse them.
        """
        for batch in batches:
            for bad in batch.bad:
                self.name_bad(self.feed.path(bad.index), bad.reason, "train")
            yield batch

    def name_bad(self, path: str, reason: str, use: str) -> None:
        """Say once that an image is left out.

        Raises:
            FailedError: where the config says to refuse bad images.
        """
        if path in self._named:
            return
        self._named.add(path)
        if use == "train" or self.world.rank == 0:  # all ranks know the bad validation images
            self.log.write(BadImage(path=path, reason=reason, use=use))
        if self.feed.config.data.bad == "refuse":
            raise FailedError(
                f"{path} cannot be used: {reason}",
                hint="mend or remove the file, or leave such files out with data.bad = 'skip'",
                node=self.world.node,
                rank=self.world.rank,
            )

    def tell_step(self, order: Order, outcome: Outcome, state: TrainState, done: Stepper) -> None:
        """Write a step, or why it was skipped."""
        wall, spent = done.clock.take()
        if not outcome.committed:
            self._tell_skipped(order, outcome, state, done)
            return
        self.log.write(
            StepDone(
                epoch=order.epoch,
                loss=outcome.loss,
                images=outcome.images,
                lr=outcome.lr,
                wall=round(wall, 6),
                **{k: round(v, 6) for k, v in spent.items()},
            ),
            state.step,
        )

    def _tell_skipped(
        self, order: Order, outcome: Outcome, state: TrainState, done: Stepper
    ) -> None:
        if outcome.images == 0 or outcome.overflow:
            return
        if self.world.rank not in outcome.sick and self.world.rank:
            return
        files = tuple(self.feed.path(i) for i in done.last.sick_indices[:5])
        where = tuple(f"rank {r}" for r in outcome.sick) or ("the gradient",)
        self.log.write(StepSkipped(epoch=order.epoch, where=where, files=files), state.step)

    def tell_epoch(self, epoch: int, state: TrainState, measured: Measured | None) -> None:
        """Write the epoch's mean loss, then its validation; rank 0 only."""
        now = time.monotonic()
        seconds, self._epoch_start = now - self._epoch_start, now
        for path, reason in (measured.bad if measured else {}).items():
            self.name_bad(path, reason, "validate")
        if self.world.rank:
            return
        images = state.epoch_images
        loss = state.epoch_loss / images if images else math.nan
        self.log.write(
            EpochDone(epoch=epoch, loss=loss, images=images, bad=state.epoch_bad, seconds=seconds),
            state.step,
        )
        if measured:
            self._tell_validated(epoch, state, measured)

    def _tell_validated(self, epoch: int, state: TrainState, measured: Measured) -> None:
        metrics = measured.metrics
        self.log.write(
            Validated(
                epoch=epoch,
                weights=self.weights,
                count=metrics.count,
                accuracy=metrics.accuracy,
                top5=metrics.top5,
                log_loss=metrics.log_loss,
                macro_f1=metrics.macro_f1,
                seconds=time.monotonic() - self._validation_start,
                bad=len(measured.bad),
            ),
            state.step,
        )

    def start_validation(self) -> None:
        """Note when the validation began."""
        self._validation_start = time.monotonic()
