"""Measures a training from outside: when its steps happened, how much memory its processes held."""

from __future__ import annotations

import ctypes
import os
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36
SAMPLE_SECONDS = 0.2


@dataclass(frozen=True, kw_only=True)
class Ran:
    """A finished command: when it began (monotonic seconds), its peak memory in bytes (0: not
    sampled), and what it printed."""

    began: float
    peak: int
    output: str


@dataclass(frozen=True, kw_only=True)
class Step:
    """A committed step: monotonic seconds, its epoch, its number from 0 over the whole run."""

    t: float
    epoch: int
    number: int


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent ends (Linux), to keep counting it."""
    failed = ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    if failed:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def run(command: Sequence[str], log: Path, *, sampled: bool, cwd: Path) -> Ran:
    """Run a command until it and all its descendants have ended.

    ``sampled`` reads every process's memory five times a second. That costs processor time, so
    speed and memory are never measured in the same run. Call adopt_orphans() first.

    Raises:
        RuntimeError: the command failed; its last lines are in the message.
    """
    peak = 0
    with log.open("wb") as file:
        began = time.monotonic()
        process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, cwd=cwd)
        while process.poll() is None or orphans_left():
            peak = max(peak, memory()) if sampled else 0
            time.sleep(SAMPLE_SECONDS)
    output = log.read_text("utf-8", "replace")
    if process.returncode:
        tail = "\n".join(output.splitlines()[-15:])
        raise RuntimeError(f"exit {process.returncode}: {' '.join(command)}\n{tail}")
    return Ran(began=began, peak=peak, output=output)


def orphans_left() -> bool:
    """True while an adopted process lives on; those that have ended are reaped."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            continue
    except ChildProcessError:
        return False
    return True


def memory() -> int:
    """Proportional set size of all descendants together, in bytes: shared pages count once."""
    return sum(proportional_size(pid) for pid in descendants(os.getpid()))


def descendants(root: int) -> set[int]:
    """Every process below ``root``, without ``root``."""
    parents = {int(p.name): parent(p) for p in Path("/proc").iterdir() if p.name.isdigit()}
    found: set[int] = set()
    ring = {root}
    while ring:
        ring = {pid for pid, above in parents.items() if above in ring} - found
        found |= ring
    return found


def parent(process: Path) -> int:
    """The parent's pid; 0 when the process has just ended."""
    try:
        text = (process / "stat").read_text("utf-8", "replace")
    except OSError:
        return 0
    return int(text.rpartition(")")[2].split()[1])  # the name before it may hold spaces


def proportional_size(pid: int) -> int:
    """PSS of one process in bytes; 0 when it has just ended."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text("ascii").splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:")), 0)


def steady_rate(steps: Sequence[Step], batch: int, skip: int) -> float:
    """Images per second between steps of one epoch, over all epochs.

    The first ``skip`` steps of every epoch are left out (start-up, filling queues), and so is its
    last, which may be short. Validation and saving lie between epochs and never count.

    Raises:
        ValueError: no epoch has enough steps.
    """
    images = seconds = 0.0
    for epoch in sorted({step.epoch for step in steps}):
        ordered = sorted((s for s in steps if s.epoch == epoch), key=lambda s: s.number)
        inner = ordered[skip:-1]
        if len(inner) > 1:
            images += (inner[-1].number - inner[0].number) * batch
            seconds += inner[-1].t - inner[0].t
    if not seconds:
        raise ValueError(
            f"no epoch has more than {skip + 2} steps; take more images or a smaller batch"
        )
    return images / seconds
