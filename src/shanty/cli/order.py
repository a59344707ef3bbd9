"""What one ``shanty train`` will do, decided and checked before a process is started."""

from __future__ import annotations

import platform
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path

from shanty import __version__
from shanty.cli.folder import create, remove
from shanty.cli.images import Found
from shanty.cluster.here import local_node, usable_cores
from shanty.cluster.plan import Job, make_plan
from shanty.errors import RefusedError, UsageError
from shanty.record.rundir import RunDir
from shanty.spec.plan import LaunchPlan
from shanty.spec.run import Attempt, TrainSpec

TRAIN_MODULE = "shanty.train.worker"


@dataclass(frozen=True, kw_only=True)
class Order:
    """A checked training: what the workers read, what images there are, how many ranks.

    ``before`` is the world size of the attempt that is continued (0: a new run).
    """

    spec: TrainSpec
    images: Found
    ranks: int
    before: int = 0

    @property
    def rundir(self) -> RunDir:
        """The folder that the spec names."""
        return RunDir(Path(self.spec.rundir))


def next_attempt(spec: TrainSpec, ranks: int) -> TrainSpec:
    """The spec with one more start in its list, now, with ``ranks`` ranks."""
    generation = spec.attempts[-1].generation + 1 if spec.attempts else 0
    now = datetime.now(timezone.utc).isoformat(timespec="seconds")
    attempt = Attempt(generation=generation, started=now, world_size=ranks)
    versions = {"shanty": __version__, "python": platform.python_version()}
    return replace(spec, attempts=(*spec.attempts, attempt), versions=spec.versions | versions)


def plan_of(order: Order) -> LaunchPlan:
    """How the training is started: processes, environment, lines to type."""
    job = Job(
        run_id=order.spec.run_id,
        module=TRAIN_MODULE,
        spec=str(order.rundir.spec),
        rundir=order.spec.rundir,
        generation=order.spec.generation,
    )
    return make_plan(job, local_node(order.ranks), usable_cores())


@contextmanager
def made(rundir: RunDir) -> Generator[None, None, None]:
    """A new run's folder; it goes again when the run is refused inside the block.

    So the same command can be given again once the reason is mended.
    """
    create(rundir)
    try:
        yield
    except (RefusedError, UsageError, KeyboardInterrupt):
        remove(rundir)
        raise
