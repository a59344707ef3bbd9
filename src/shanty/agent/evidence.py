"""What a dead worker left: the error it wrote itself, and its last words."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from shanty.agent.crew import Worker
from shanty.agent.verdict import Exit
from shanty.record.events import Event, Failed
from shanty.record.reader import parse
from shanty.record.rundir import RunDir

_LAST_LINES = 20
_LAST_BYTES = 64 * 1024
_RANK_MARK = re.compile(r"^\[rank\d+\]: ?")  # torch puts it before every line of a traceback


def examine(worker: Worker, rundir: RunDir, seen: Exit) -> Exit:
    """The exit with the worker's own error and last words filled in (nothing for a good end)."""
    if seen.code == 0:
        return seen
    own = _own_failure(rundir.rank_events(worker.rank), worker.events_start)
    evidence: dict[str, Any] = {"words": _last_words(worker.log, worker.log_start)}
    if own is not None and isinstance(own.body, Failed):
        evidence |= {"own": own.body.error, "own_t": own.t, "trace": own.body.trace}
    return Exit(**(seen.__dict__ | evidence))


def _own_failure(path: Path, start: int) -> Event | None:
    """The first error that is no consequence, else the first one."""
    text = _read(path, start).decode("utf-8", "surrogateescape")
    failures = [e for e in parse(text) if isinstance(e.body, Failed)]
    return min(failures, key=_weight, default=None)


def _weight(event: Event) -> tuple[bool, float]:
    body = event.body
    return (isinstance(body, Failed) and bool(body.error.get("consequence")), event.t)


def _last_words(path: Path, start: int) -> tuple[str, ...]:
    size = path.stat().st_size if path.exists() else 0
    text = _read(path, max(start, size - _LAST_BYTES)).decode("utf-8", "replace")
    lines = [_RANK_MARK.sub("", line).rstrip() for line in text.splitlines()]
    # Lines of ^^^^ below a source line say nothing without a fixed-width font around them.
    return tuple(line for line in lines if line.strip(" ^~"))[-_LAST_LINES:]


def _read(path: Path, start: int) -> bytes:
    try:
        with path.open("rb") as file:
            file.seek(start)
            return file.read()
    except OSError:
        return b""
