"""A started run, as the operator holds it: follow its events, stop it, read how it ended."""

from __future__ import annotations

import signal
import time
from dataclasses import dataclass
from pathlib import Path

from shanty.cluster.running import leftovers
from shanty.cluster.transport import Transport
from shanty.errors import FailedError, ShantyError, from_dict
from shanty.record.atomic import write_json
from shanty.record.events import Ended, Event, Failed
from shanty.record.process import ProcessId
from shanty.record.reader import Follower, parse
from shanty.record.rundir import RunDir
from shanty.spec.codec import to_dict
from shanty.spec.plan import LaunchPlan, NodeLaunch

_TICK = 0.05
# Workers die with their agent by themselves; after this many seconds they are helped.
_LAST_BREATH = 0.5


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How a run ended. ``error`` is the first cause; ``trace`` the file with its traceback."""

    exit_code: int
    error: ShantyError | None
    reason: str
    trace: str = ""


class Session:
    """One start of a run. Losing this object changes nothing: the agent goes on by itself."""

    def __init__(
        self, plan: LaunchPlan, transport: Transport, agent: ProcessId, follower: Follower
    ) -> None:
        self.plan = plan
        self._transport = transport
        self._agent = agent
        self._follower = follower
        self._stopped = False

    def poll(self) -> list[Event]:
        """What happened since the last call, in this start of the run only."""
        return [e for e in self._follower.poll() if e.gen == self.plan.generation]

    def alive(self) -> bool:
        """True while the agent runs; its workers end before it does."""
        return self._transport.alive(self._agent)

    def stop(self) -> None:
        """Ask politely: the workers save and end. A second call ends them at once."""
        self._stopped = True
        self._transport.send(self._agent, signal.SIGTERM)

    def kill(self) -> None:
        """End the workers now, without a save, whether or not they were asked before."""
        self.stop()
        # Two equal signals may melt into one before the agent looks; two kinds cannot.
        self._transport.send(self._agent, signal.SIGINT)

    def wait(self, limit: float) -> bool:
        """Wait for the end; False when it has not come within ``limit`` seconds."""
        end = time.monotonic() + limit
        while self.alive():
            if time.monotonic() > end:
                return False
            time.sleep(_TICK)
        return True

    def outcome(self) -> Outcome:
        """How it ended; only when ``alive`` says False. No worker is left after this call."""
        if self.alive():
            raise ValueError("the run has not ended yet")
        rundir, launch = RunDir(Path(self.plan.rundir)), _only(self.plan)
        self._sweep(rundir)
        told = _told(rundir, launch.node.name, self.plan.generation)
        if told is not None:
            return told
        if self._stopped:  # stopped before the agent could listen: nothing had begun
            return Outcome(exit_code=130, error=None, reason="stopped before it started")
        return _agent_died(rundir, launch.node.name)

    def _sweep(self, rundir: RunDir) -> None:
        end = time.monotonic() + _LAST_BREATH
        while (left := leftovers(rundir.root)) and time.monotonic() < end:
            time.sleep(_TICK)
        for worker in left:
            self._transport.send(worker, signal.SIGKILL)


def start(plan: LaunchPlan, transport: Transport, options: tuple[str, ...] = ()) -> Session:
    """Write the plan down, and start the node's agent, detached.

    ``options`` are the agent's own, such as ``("--save-limit", "20")``.

    Raises:
        FailedError: the agent cannot be started.
    """
    rundir, launch = RunDir(Path(plan.rundir)), _only(plan)
    rundir.make()
    write_json(rundir.plan, to_dict(plan), mode=0o600)
    follower = Follower(rundir.events, from_end=True)
    name = launch.node.name
    command = [launch.node.python, "-m", "shanty.agent", str(rundir.plan), name, *options]
    agent = transport.start(command, log=rundir.agent_log(name))
    return Session(plan, transport, agent, follower)


def _only(plan: LaunchPlan) -> NodeLaunch:
    if len(plan.nodes) != 1:
        raise ValueError(f"one node for now, got {len(plan.nodes)}")
    return plan.nodes[0]


def _told(rundir: RunDir, node: str, generation: int) -> Outcome | None:
    """What the agent itself says of the end; None when it could not say."""
    path = rundir.agent_events(node)
    text = path.read_bytes().decode("utf-8", "surrogateescape") if path.exists() else ""
    bodies = [e.body for e in parse(text) if e.gen == generation]
    ended = next((b for b in reversed(bodies) if isinstance(b, Ended)), None)
    if ended is None:
        return None
    failed = next((b for b in reversed(bodies) if isinstance(b, Failed)), None)
    if failed is None:
        return Outcome(exit_code=ended.exit_code, error=None, reason=ended.reason)
    error = from_dict(failed.error)
    return Outcome(exit_code=ended.exit_code, error=error, reason=ended.reason, trace=failed.trace)


def _agent_died(rundir: RunDir, node: str) -> Outcome:
    log = rundir.agent_log(node)
    text = log.read_bytes().decode("utf-8", "replace") if log.exists() else ""
    said = "".join(f"\n    {line}" for line in text.strip().splitlines()[-3:])
    error = FailedError(
        f"the agent died{said}",
        hint=f"go on from the last checkpoint with --resume {rundir.root}",
        node=node,
    )
    return Outcome(exit_code=4, error=error, reason="the agent died", trace=str(log))
