"""The training, from top to bottom."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from shanty.comm.replicas import compare
from shanty.errors import FailedError, InterruptedRun
from shanty.record.events import EventLog, Note, Phase
from shanty.train import buffers
from shanty.train.evaluate import Measured
from shanty.train.feed import Feed
from shanty.train.parts import Parts
from shanty.train.saving import Saver
from shanty.train.say import Voice
from shanty.train.state import TrainState
from shanty.train.step import Order, Stepper, Wishes


@dataclass(frozen=True, kw_only=True)
class Job:
    """What the loop works with."""

    parts: Parts
    feed: Feed
    stepper: Stepper
    saver: Saver
    voice: Voice
    log: EventLog
    stopping: Callable[[], bool]
    validate: Callable[[int], Measured | None]


def train(job: Job, state: TrainState) -> TrainState:
    """Train from ``state`` to the last epoch; returns the state at its end.

    Raises:
        InterruptedRun: it was told to stop; the state is saved.
        FailedError: too many steps in a row were not finite, or the replicas differ.
    """
    state = close_epochs(job, state)  # an epoch that was stopped before its validation
    if state.step >= job.feed.total_steps:
        job.log.write(Note(text="all epochs were done already, nothing is left to do"), state.step)
        return state
    job.log.write(Phase(name="training"), state.step)
    for order, batches in job.feed.steps(state.step):
        wishes = Wishes(stop=job.stopping(), save=job.saver.due())
        outcome = job.stepper.run(order, job.voice.listen(batches), wishes)
        state = state.after(outcome, order.images)
        job.voice.tell_step(order, outcome, state, job.stepper)
        check_health(job, state)
        if outcome.stop:
            stop(job, state, order)
        if state.step % job.feed.steps_per_epoch == 0:
            state = close_epochs(job, state)
        elif outcome.save:
            job.saver.save(state, epoch=order.epoch)
    return state


def close_epochs(job: Job, state: TrainState) -> TrainState:
    """End the epoch that ``state`` has completed: equal buffers, validation, save."""
    epoch = state.step // job.feed.steps_per_epoch - 1
    if epoch < state.validated:
        return state
    if state.epoch_bad >= job.feed.images:
        raise FailedError(
            f"not one of {state.epoch_bad} training images could be used in epoch {epoch + 1}",
            hint="the reasons are in the run's events; mend the images and start again",
        )
    equalise(job.parts)
    measured = None
    if due(job, epoch):
        job.log.write(Phase(name="validating"), state.step)
        measured = job.validate(epoch)
        if measured is None:
            stop(job, state, job.feed.order(state.step - 1))
    job.voice.tell_epoch(epoch, state, measured)
    metrics = measured.metrics if measured else None
    after = state.next_epoch(metrics, job.parts.config.validate.metric, epoch)
    # With nothing to measure by, the newest is the best.
    best = after.best_epoch == epoch or not job.feed.data.val
    job.saver.save(after, epoch=epoch, best=best)
    job.log.write(Phase(name="training"), state.step)
    return after


def due(job: Job, epoch: int) -> bool:
    """True when there is a validation set and it is this epoch's turn (or the last)."""
    config = job.parts.config
    turn = (epoch + 1) % config.validate.every == 0 or epoch + 1 == config.epochs
    return turn and bool(job.feed.data.val)


def equalise(parts: Parts) -> None:
    """Give all ranks the mean of their BatchNorm buffers, so the file says what was measured."""
    own = buffers.named(parts.model)
    buffers.assign(own, buffers.averaged(own, parts.world))
    if parts.ema:
        own = parts.ema.buffers()
        buffers.assign(own, buffers.averaged(own, parts.world))


def check_health(job: Job, state: TrainState) -> None:
    """Stop a run that no longer learns, or whose replicas have drifted apart."""
    limit = job.parts.config.nan_limit
    if state.skipped_in_row > limit:
        raise FailedError(
            f"{state.skipped_in_row} steps in a row were not finite (limit nan_limit = {limit})",
            hint="try a smaller --lr; the skipped steps and their files are in the run's events",
        )
    every = job.parts.config.sync.check_every
    if state.step == 1 or state.step % every == 0:
        compare(job.parts.world, job.parts.model.named_parameters(), state.step)


def stop(job: Job, state: TrainState, order: Order) -> None:
    """Save and leave, because the person said so."""
    job.saver.save(state, epoch=order.epoch)
    raise InterruptedRun(f"stopped after step {state.step}, saved")
