"""Signals as values: they are read from a pipe, in the loop, instead of interrupting it."""

from __future__ import annotations

import os
import select
import signal
from types import TracebackType
from typing import Any

_WATCHED = (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT)


class SignalPipe:
    """Collects SIGCHLD, SIGTERM and SIGINT for ``wait``; SIGHUP is ignored (a terminal closed).

    The Python interpreter writes each signal's number into the pipe at once (the ``wakeup_fd`` of
    the signal module), so none is lost between two calls of ``wait``. Main thread only.
    """

    def __init__(self) -> None:
        self._out, self._in = os.pipe()
        os.set_blocking(self._in, False)
        os.set_blocking(self._out, False)
        self._before: dict[int, Any] = {}

    def __enter__(self) -> SignalPipe:
        signal.set_wakeup_fd(self._in, warn_on_full_buffer=False)
        for number in _WATCHED:
            self._before[number] = signal.signal(number, _noted)
        self._before[signal.SIGHUP] = signal.signal(signal.SIGHUP, signal.SIG_IGN)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(-1)
        os.close(self._in)
        os.close(self._out)

    def wait(self, seconds: float) -> list[int]:
        """The requests to stop that came in; returns at the first signal or after ``seconds``."""
        nothing: list[int] = []
        ready, _, _ = select.select([self._out], nothing, nothing, max(0.0, seconds))
        numbers = os.read(self._out, 4096) if ready else b""
        return [n for n in numbers if n in (signal.SIGTERM, signal.SIGINT)]


def _noted(_number: int, _frame: object) -> None:
    """The pipe has it already; Python only needs a handler to write there."""
