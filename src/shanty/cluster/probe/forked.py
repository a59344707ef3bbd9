"""A piece of work in a process of its own, with a time limit, and what it printed.

By ``fork``, since the program came through a pipe and there is no file to start a second one from;
and so torch is imported once for all trials.
"""

from __future__ import annotations

import json
import os
import select
import signal
import tempfile
import time
from typing import Any, Callable, Dict, NamedTuple  # noqa: UP035 - Python 3.8

Say = Callable[[Dict[str, object]], None]  # noqa: UP006 - Python 3.8


class Told(NamedTuple):
    """What the work said, how it ended (empty: well), what it printed, how long it took."""

    facts: Dict[str, Any]  # noqa: UP006
    end: str
    printed: str
    seconds: float


def forked(work: Callable[[Say], None], limit: float) -> Told:
    """Run ``work(say)`` in a child; what it ``said`` before a crash or the limit is kept."""
    begun = time.monotonic()
    reading, writing = os.pipe()
    with tempfile.TemporaryFile() as printed:
        child = os.fork()
        if child == 0:
            os.close(reading)
            _child(work, writing, printed.fileno(), limit)
        os.close(writing)
        facts, ended = _heard(reading, begun + limit)
        end = _end(child, ended=ended)
        printed.seek(0)
        text = printed.read().decode("utf-8", "replace")
    return Told(facts, end, text, round(time.monotonic() - begun, 2))


def _child(work: Callable[[Say], None], writing: int, printed: int, limit: float) -> None:
    """Never returns. Whatever hangs in it, the alarm ends it, also when the parent is gone."""
    code = 1
    try:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(int(limit) + 2)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(printed, 1)
        os.dup2(printed, 2)
        work(lambda facts: _write(writing, facts))
        code = 0
    except BaseException as error:  # noqa: BLE001 - a SystemExit of the work, too, ends only it
        _write(writing, {"error": f"{type(error).__name__}: {error}"})
    finally:
        os._exit(code)


def _write(writing: int, facts: dict[str, Any]) -> None:
    os.write(writing, json.dumps(facts).encode() + b"\n")


def _heard(reading: int, end: float) -> tuple[dict[str, Any], bool]:
    """All facts until the child closed its end (True) or the time was up (False)."""
    data, ended = b"", False
    while not ended and select.select([reading], [], [], max(0.0, end - time.monotonic()))[0]:
        part = os.read(reading, 1 << 16)
        data, ended = data + part, not part
    os.close(reading)
    facts: dict[str, Any] = {}
    for line in data.split(b"\n")[:-1]:
        facts.update(json.loads(line))
    return facts, ended


def _end(child: int, *, ended: bool) -> str:
    if not ended:
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if not ended:
        return "time"
    if os.WIFSIGNALED(status):
        return f"signal {os.WTERMSIG(status)}"
    return "" if os.WEXITSTATUS(status) == 0 else "error"


def last_words(text: str, limit: int = 400) -> str:
    """The end of what a program printed."""
    return text.strip()[-limit:]
