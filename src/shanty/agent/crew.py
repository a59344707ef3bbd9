"""The workers of one node: started, signalled, and noticed when they end."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from shanty.agent.environment import worker_environment
from shanty.errors import FailedError
from shanty.record.rundir import RunDir
from shanty.spec.plan import LaunchPlan, NodeLaunch

_LONGEST_DEATH = 10.0  # seconds that a killed process may take to be gone


@dataclass(frozen=True, kw_only=True)
class Worker:
    """A started worker; its log and event file had these sizes in bytes before it began."""

    rank: int
    process: subprocess.Popen[bytes]
    log: Path
    log_start: int
    events_start: int


def start_crew(plan: LaunchPlan, launch: NodeLaunch, store: Path) -> list[Worker]:
    """Start one worker per rank of the node; all or none.

    From the main thread: a worker dies with the *thread* that started it (prctl(2)).

    Raises:
        FailedError: the node's Python cannot be started.
    """
    crew: list[Worker] = []
    own = {"SHANTY_AGENT_PID": str(os.getpid()), "SHANTY_STORE": str(store)}
    try:
        for local in range(len(launch.ranks)):
            env = worker_environment(plan, launch, local, os.environ, own)
            crew.append(_start(plan, launch, local, env))
    except OSError as error:
        raise FailedError(
            f"cannot start {launch.node.python} in {launch.node.workdir}: {error.strerror}",
            hint="check the node's python and workdir",
            node=launch.node.name,
        ) from error
    finally:
        if len(crew) < len(launch.ranks):
            end_crew(crew)
    return crew


def _start(plan: LaunchPlan, launch: NodeLaunch, local_rank: int, env: Mapping[str, str]) -> Worker:
    rundir, rank = RunDir(Path(plan.rundir)), launch.ranks[local_rank]
    log = rundir.rank_log(launch.node.name, rank)
    with log.open("ab") as out:
        start = log.stat().st_size
        # A session of its own: a Ctrl-C in a terminal reaches only the agent, which passes it on,
        # and whatever the worker starts can be ended with it, as its process group.
        process = subprocess.Popen(  # noqa: S603 - the plan says what to run
            [launch.node.python, "-m", plan.module, plan.spec],
            env=dict(env),
            cwd=launch.node.workdir,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    events = rundir.rank_events(rank)
    return Worker(
        rank=rank,
        process=process,
        log=log,
        log_start=start,
        events_start=events.stat().st_size if events.exists() else 0,
    )


def reap(worker: Worker) -> int | None:
    """The worker's return code once it has ended (negative: a signal), else None.

    What it started and left behind in its process group is killed. That is done before the worker
    is released, while its pid, which names the group, cannot belong to anybody else.
    """
    options = os.WEXITED | os.WNOHANG | os.WNOWAIT
    if os.waitid(os.P_PID, worker.process.pid, options) is None:
        return None
    _signal_group(worker, signal.SIGKILL)
    return worker.process.wait()


def signal_crew(crew: Sequence[Worker], number: int) -> None:
    """Signal workers that were not reaped yet; SIGKILL takes their whole process group."""
    for worker in crew:
        if number == signal.SIGKILL:
            _signal_group(worker, number)
        else:
            worker.process.send_signal(number)


def end_crew(crew: Sequence[Worker]) -> None:
    """Kill and reap every worker that is left."""
    left = [w for w in crew if w.process.returncode is None]
    signal_crew(left, signal.SIGKILL)
    for worker in left:
        with suppress(subprocess.TimeoutExpired):  # stuck in the kernel: a dead disk
            worker.process.wait(_LONGEST_DEATH)


def _signal_group(worker: Worker, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(worker.process.pid, number)
