"""Which process is meant. A pid alone may name another one tomorrow; with its start time it cannot.

Linux only: read from ``/proc``. The agent writes down who it is and whom it started; the
operator's side proves from that what still runs, before it signals anything.
"""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from pathlib import Path

from shanty.errors import UsageError
from shanty.record.atomic import read_json, write_json
from shanty.spec.codec import from_dict, to_dict


@dataclass(frozen=True, kw_only=True)
class ProcessId:
    """One process: ``start`` in clock ticks since the boot that ``boot`` names."""

    pid: int
    start: int
    host: str
    boot: str


@dataclass(frozen=True, kw_only=True)
class Owner:
    """Who runs a run: its agent, and the workers in the order of their local ranks."""

    agent: ProcessId
    node: str
    generation: int
    workers: tuple[ProcessId, ...] = ()


def identify(pid: int) -> ProcessId | None:
    """The process that has this pid now; None when there is none, or only its remains."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return None
    return from_stat(pid, stat, host=os.uname().nodename, boot=_boot())


def from_stat(pid: int, stat: str, *, host: str, boot: str) -> ProcessId | None:
    """The process that ``/proc/PID/stat`` of some machine tells of; None when it has ended."""
    fields = stat.rpartition(")")[2].split()
    if len(fields) < 20 or fields[0] in "ZX":  # ended, and only waiting for its parent to notice
        return None
    return ProcessId(pid=pid, start=int(fields[19]), host=host, boot=boot)


def alive(process: ProcessId) -> bool:
    """True when exactly this process still runs on this machine."""
    return identify(process.pid) == process


def send(process: ProcessId, number: int) -> bool:
    """Signal exactly this process; False when it is no longer there (nothing else is hit)."""
    try:
        handle = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return False
    except (OSError, AttributeError):  # before Linux 5.3: a very small race remains
        return alive(process) and _kill(process.pid, number)
    try:
        if not alive(process):
            return False
        signal.pidfd_send_signal(handle, number)
    except ProcessLookupError:
        return False
    finally:
        os.close(handle)
    return True


def write_owner(path: Path, owner: Owner) -> None:
    """Write down who runs a run, in one step."""
    write_json(path, to_dict(owner))


def read_owner(path: Path) -> Owner | None:
    """Who ran the run last, alive or not; None when nobody is written down."""
    try:
        return from_dict(Owner, read_json(path))
    except (OSError, ValueError, TypeError, UsageError):
        return None


def _kill(pid: int, number: int) -> bool:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True


def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
