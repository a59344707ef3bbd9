"""The process of one rank: its place, its event file, its signals, and how it ends."""

from __future__ import annotations

import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from shanty.comm.place import Place, find_place
from shanty.errors import FailedError, InterruptedRun, ShantyError, UsageError
from shanty.record.events import Ended, EventLog, Failed, Note, Progress, Started
from shanty.record.orphan import die_with_parent
from shanty.record.rundir import RunDir

# What a rank says when another one is gone: a consequence, never the cause.
_LOST_PEER = (
    "Connection closed by peer",
    "Connection reset by peer",
    "Broken pipe",
    "Timed out waiting",
    "Application timeout caused pair closure",
    "Connection refused",
    "connectFullMesh failed",
    "NCCL communicator was aborted",
    "Socket Timeout",
)


class Process:
    """What the code of a rank may ask of its own process."""

    def __init__(self, place: Place, log: EventLog) -> None:
        self.place, self.log = place, log
        self._stop = False
        self._said = 0.0
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)

    def stopping(self) -> bool:
        """True once somebody asked this process to stop."""
        return self._stop

    def progress(self, what: str, total: int = 0) -> Callable[[int], None]:
        """A function that tells how many images are done, at most twice a second."""

        def tell(done: int) -> None:
            now = time.monotonic()
            if now - self._said > 0.5:
                self._said = now
                self.log.write(Progress(done=done, total=total, what=what))

        return tell

    def _on_signal(self, _number: int, _frame: Any) -> None:
        self._stop = True


def stopped() -> InterruptedRun:
    """What to raise when a task without checkpoints was told to stop."""
    return InterruptedRun("stopped before the end; nothing was written")


def run_rank(rundir: RunDir, generation: int, work: Callable[[Process], dict[str, Any]]) -> int:
    """Run ``work`` as this process's rank and write down how it ended.

    Expected errors end with their exit code; anything else with 4 and its traceback in the run's
    folder. After an error the process ends at once: a thread stuck in a read must not hold it.
    """
    die_with_parent()
    place = find_place(os.environ, rundir.root)
    rundir.make()
    log = EventLog(rundir.rank_events(place.rank), node=place.node, rank=place.rank, gen=generation)
    log.write(
        Started(
            wall=time.time(), pid=os.getpid(), host=os.uname().nodename,
            world_size=place.world_size,
        )
    )  # fmt: skip
    try:
        _warn_of_open_store(place, log)
        result = work(Process(place, log))
    except BaseException as error:  # noqa: BLE001 - every end of a rank is written down
        code = _end_badly(error, place, log, rundir)
        sys.stderr.flush()
        os._exit(code)
    log.write(Ended(exit_code=0, result=result))
    return 0


def entry(module: str, main: Callable[[Path], int], argv: list[str]) -> int:
    """What ``python -m MODULE RUN.json`` does: read the arguments, run, turn errors into codes."""
    if len(argv) != 2:
        _say(f"usage: python -m {module} RUN/run.json")
        return UsageError.exit_code
    try:
        return main(Path(argv[1]))
    except ShantyError as error:
        _say(str(error))
        return error.exit_code


def _end_badly(error: BaseException, place: Place, log: EventLog, rundir: RunDir) -> int:
    text = str(error)
    if isinstance(error, ShantyError):
        known = error.at(place.node, place.rank)
        log.write(Failed(error=known.to_dict()))
        log.write(Ended(exit_code=known.exit_code, reason=known.what))
        _say(str(known))
        return known.exit_code
    trace = rundir.logs / f"crash-rank-{place.rank}.txt"
    trace.write_text("".join(traceback.format_exception(error)), encoding="utf-8")
    known = _explain(error, text).at(place.node, place.rank)
    lost = isinstance(error, RuntimeError) and any(mark in text for mark in _LOST_PEER)
    log.write(Failed(error=known.to_dict() | {"consequence": lost}, trace=str(trace)))
    log.write(Ended(exit_code=4, reason=known.what))
    _say(f"{known}\n  trace: {trace}")
    return 4


def _explain(error: BaseException, text: str) -> FailedError:
    disguised = "INTERNAL ASSERT FAILED" in text and "NVML" in text  # Jetson: pytorch#185240
    if isinstance(error, torch.OutOfMemoryError) or disguised:
        return FailedError(
            f"out of memory (likely): {text.splitlines()[0]}",
            hint="use a smaller --batch, or --set micro_batch=N to accumulate",
        )
    frame = traceback.extract_tb(error.__traceback__)
    place = f" ({Path(frame[-1].filename).name}:{frame[-1].lineno})" if frame else ""
    first = text.strip().splitlines()[0] if text.strip() else "no message"
    return FailedError(
        f"{type(error).__name__}: {first}{place}", hint="the traceback is in the run's logs folder"
    )


def _warn_of_open_store(place: Place, log: EventLog) -> None:
    if place.launcher == "torchrun" and place.rank == 0 and not place.one_machine:
        text = "started by torchrun: its rendezvous store is open to everybody on this network"
        log.write(Note(text=text, level="warning"))


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")
