"""Start a planned run on this machine, follow it, and say how it ended."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from shanty.cli.folder import shown
from shanty.cluster.here import local_node, usable_cores
from shanty.cluster.plan import Job, make_plan
from shanty.cluster.session import Outcome, start
from shanty.cluster.transport import LocalTransport
from shanty.errors import FailedError, RefusedError, ShantyError
from shanty.spec.plan import LaunchPlan
from shanty.watch.screen import screen_for
from shanty.watch.story import Story
from shanty.watch.terminal import Interrupts, follow


@dataclass(frozen=True, kw_only=True)
class Ran:
    """How a run ended, and whether a first training step was taken."""

    outcome: Outcome
    trained: bool


def launch(plan: LaunchPlan, place: str, *, quiet: bool) -> Ran:
    """Run a plan to its end. ``place`` is the run's folder as shown to the person."""
    story = Story(place)
    with Interrupts().counted() as interrupts:  # before the start: no Ctrl-C may be lost between
        session = start(plan, LocalTransport())
        outcome = follow(session, story, screen_for(quiet=quiet), interrupts)
    return Ran(outcome=outcome, trained=story.trained)


def run_job(job: Job, ranks: int, *, quiet: bool) -> int:
    """Start workers that are no training, and follow them; 0, or 130 when they were stopped.

    Raises:
        ShantyError: what ended them early.
    """
    plan = make_plan(job, local_node(ranks), usable_cores())
    ran = launch(plan, shown(Path(job.rundir)), quiet=quiet)
    error = failure_of(ran.outcome)
    if error is not None:
        raise error
    return ran.outcome.exit_code


def failure_of(outcome: Outcome) -> ShantyError | None:
    """The error to show for a run that went wrong; None when it ended well or was stopped."""
    if outcome.exit_code in (0, 130):
        return None
    error = outcome.error or FailedError(outcome.reason or "the run failed")
    refused = outcome.exit_code == RefusedError.exit_code  # its folder is removed: nothing to read
    if outcome.trace and outcome.trace not in error.hint and not refused:
        error.hint = "\n  ".join(part for part in (error.hint, f"more: {outcome.trace}") if part)
    return error
