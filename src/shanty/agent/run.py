"""One run on one node, from the claim on its folder to the last event."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import time
import traceback
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from shanty.agent.crew import Worker, end_crew, start_crew
from shanty.agent.signals import SignalPipe
from shanty.agent.stopping import INTERRUPTED, Limits, Stopping
from shanty.agent.verdict import FAILED, Exit, describe, exit_code, first_cause, in_words
from shanty.agent.watch import Watch
from shanty.errors import FailedError, RefusedError, ShantyError
from shanty.record.events import Ended, EventLog, Failed, Started
from shanty.record.process import Owner, alive, identify, read_owner, write_owner
from shanty.record.rundir import RunDir
from shanty.spec.plan import LaunchPlan, NodeLaunch

_SPARE = 64 * 1024
_POLITE_ENDS = (0, INTERRUPTED, -signal.SIGTERM)


@dataclass(frozen=True, kw_only=True)
class Ending:
    """How it went on this node."""

    code: int
    reason: str
    error: dict[str, Any] | None = None
    trace: str = ""


def run_node(plan: LaunchPlan, launch: NodeLaunch, pipe: SignalPipe, limits: Limits) -> int:
    """Run the node's workers to their end; returns the agent's exit code.

    Raises:
        RefusedError: another agent runs this folder already.
    """
    rundir, name = RunDir(Path(plan.rundir)), launch.node.name
    rundir.make()
    path, gen = rundir.agent_events(name), plan.generation
    with _claimed(rundir, launch, gen) as owner, EventLog(path, node=name, rank=-1, gen=gen) as log:
        log.write(_started(plan))
        _reserve(rundir).write_bytes(bytes(_SPARE))
        ending = _guarded(plan, launch, (pipe, Stopping(limits)), (log, owner))
        _reserve(rundir).unlink(missing_ok=True)  # room for the last words, also on a full disk
        if ending.error is not None:
            log.write(Failed(error=ending.error, trace=ending.trace))
        log.write(Ended(exit_code=ending.code, reason=ending.reason))
    return ending.code


def _reserve(rundir: RunDir) -> Path:
    """A small file that holds disk space back for the agent's last events."""
    return rundir.root / ".reserve"


@contextmanager
def _claimed(rundir: RunDir, launch: NodeLaunch, generation: int) -> Generator[Owner, None, None]:
    """Write down who runs the folder, and take that away at the end."""
    before = read_owner(rundir.agent_pid)
    if before is not None and alive(before.agent):
        raise RefusedError(
            f"{rundir.root} is being run already, by the agent with pid {before.agent.pid}",
            hint=f"wait for it, or stop it: kill {before.agent.pid}",
            node=launch.node.name,
        )
    me = identify(os.getpid())
    if me is None:
        raise FailedError("no /proc: only Linux can run workers", hint="use a Linux machine")
    owner = Owner(agent=me, node=launch.node.name, generation=generation)
    write_owner(rundir.agent_pid, owner)
    try:
        yield owner
    finally:
        rundir.agent_pid.unlink(missing_ok=True)


def _started(plan: LaunchPlan) -> Started:
    host, size = os.uname().nodename, plan.world_size
    return Started(wall=time.time(), pid=os.getpid(), host=host, world_size=size, what="agent")


def _guarded(
    plan: LaunchPlan,
    launch: NodeLaunch,
    control: tuple[SignalPipe, Stopping],
    books: tuple[EventLog, Owner],
) -> Ending:
    """What became of the workers, or of the agent itself: an ending in any case."""
    try:
        return _supervised(plan, launch, control, books)
    except ShantyError as error:
        place = error.at(launch.node.name)
        return Ending(code=error.exit_code, reason=error.what, error=place.to_dict())
    except Exception as error:  # noqa: BLE001 - our own bug; the run must end with a word all the same
        traceback.print_exc()
        trace = str(RunDir(Path(plan.rundir)).agent_log(launch.node.name))
        what = f"the agent failed: {type(error).__name__}: {error}"
        told = FailedError(what, hint=f"read {trace}", node=launch.node.name)
        return Ending(code=FAILED, reason=what, error=told.to_dict(), trace=trace)


def _supervised(
    plan: LaunchPlan,
    launch: NodeLaunch,
    control: tuple[SignalPipe, Stopping],
    books: tuple[EventLog, Owner],
) -> Ending:
    rundir, (pipe, stopping), (log, owner) = RunDir(Path(plan.rundir)), control, books
    # The folder is fresh: a rank can never meet the addresses that dead processes left there.
    with tempfile.TemporaryDirectory(prefix="shanty-") as meeting:
        crew = start_crew(plan, launch, Path(meeting) / "store")
        try:
            _list_workers(rundir, owner, crew)
            exits = Watch(crew, rundir, log).until_all_ended(pipe, stopping)
        finally:
            end_crew(crew)  # whatever happens to the agent's own code, no worker stays
    full = shutil.disk_usage(rundir.root).free < _SPARE
    return _judge(exits, launch.node.name, rundir.root if full else None)


def _list_workers(rundir: RunDir, owner: Owner, crew: Sequence[Worker]) -> None:
    """So that what would be left after the agent's sudden death can be named, and proven."""
    found = (identify(w.process.pid) for w in crew)
    write_owner(rundir.agent_pid, replace(owner, workers=tuple(w for w in found if w)))


def _judge(exits: Sequence[Exit], node: str, full: Path | None) -> Ending:
    code, cause = exit_code(exits), first_cause(exits)
    if cause is not None:
        error = describe(cause, node)
        if full is not None and cause.own is None:  # it could not even write down why
            error |= _disk_full(full, node, cause.rank).to_dict()
        trace = cause.trace or cause.log
        return Ending(code=code, reason=str(error["what"]), error=error, trace=trace)
    if code == 0:
        return Ending(code=0, reason="finished")
    hard = [f"rank {e.rank} {in_words(e.code)}" for e in exits if e.code not in _POLITE_ENDS]
    return Ending(code=code, reason="; ".join(["stopped", *hard]))


def _disk_full(folder: Path, node: str, rank: int) -> FailedError:
    return FailedError(
        f"disk full: {folder} cannot take another line",
        hint="free space there, then --resume; what was saved is intact",
        node=node,
        rank=rank,
    )
