"""The process of one rank: its place, its event file, its signals, and how it ends."""

from __future__ import annotations

import errno
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from shanty.comm.place import Place, find_place
from shanty.comm.world import is_lost_peer, is_out_of_memory
from shanty.errors import FailedError, InterruptedRun, ShantyError, UsageError
from shanty.record.events import Ended, EventLog, Failed, Note, Progress, Started
from shanty.record.orphan import die_with_parent
from shanty.record.rundir import RunDir


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
        with suppress(OSError):
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
    """Write down and say how it ended; nothing here may fail, the disk may be full."""
    known = error if isinstance(error, ShantyError) else _explain(error)
    known = known.at(place.node, place.rank)
    if log.last_step >= 0:
        known.what += f" (after step {log.last_step})"
    told, trace = known.to_dict(), ""
    if not isinstance(error, ShantyError):
        told |= {"consequence": is_lost_peer(error)}
        trace = str(rundir.logs / f"crash-{log.gen}-rank-{place.rank}.txt")
        with suppress(OSError):
            Path(trace).write_text("".join(traceback.format_exception(error)), encoding="utf-8")
    with suppress(OSError):
        log.write(Failed(error=told, trace=trace), log.last_step)
        log.write(Ended(exit_code=known.exit_code, reason=known.what))
    with suppress(OSError):
        _say(f"{known}\n  trace: {trace}" if trace else str(known))
    return known.exit_code


def _explain(error: BaseException) -> FailedError:
    text = str(error)
    first = text.strip().splitlines()[0] if text.strip() else "no message"
    if is_out_of_memory(error):
        return FailedError(
            f"out of memory (likely): {first}",
            hint="use a smaller --batch, or --set micro_batch=N to accumulate",
        )
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return FailedError(
            "disk full: the run's folder cannot take another line",
            hint="free space there, then --resume; what was saved is intact",
        )
    frame = traceback.extract_tb(error.__traceback__)
    place = f" ({Path(frame[-1].filename).name}:{frame[-1].lineno})" if frame else ""
    return FailedError(
        f"{type(error).__name__}: {first}{place}", hint="the traceback is in the run's logs folder"
    )


def _warn_of_open_store(place: Place, log: EventLog) -> None:
    if place.launcher == "torchrun" and place.rank == 0 and not place.one_machine:
        text = "started by torchrun: its rendezvous store is open to everybody on this network"
        log.write(Note(text=text, level="warning"))


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")
