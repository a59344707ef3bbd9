"""Does a run still run? Proven by pid, start time and boot, never guessed from a file."""

from __future__ import annotations

from pathlib import Path

from shanty.record.process import ProcessId, alive, read_owner
from shanty.record.rundir import RunDir


def running(rundir: Path) -> int | None:
    """The pid of the agent that runs this folder on this machine now, else None."""
    owner = read_owner(RunDir(rundir).agent_pid)
    return owner.agent.pid if owner is not None and alive(owner.agent) else None


def leftovers(rundir: Path) -> list[ProcessId]:
    """Workers of this folder that still run although their agent is gone. Usually none."""
    owner = read_owner(RunDir(rundir).agent_pid)
    if owner is None or alive(owner.agent):
        return []
    return [w for w in owner.workers if alive(w)]
