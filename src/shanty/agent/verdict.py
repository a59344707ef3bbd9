"""Which worker failed first, and what that means: the first cause on top, not its consequences."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from shanty.agent.stopping import INTERRUPTED
from shanty.errors import FailedError

PASSED_ON = (2, 3, 4)
FAILED = 4
# The kernel closes a dying process's sockets before its parent is told; a peer may be quicker to
# report the lost connection than the agent to see the death. A signal death counts so much earlier.
_CLOSING = 0.2


@dataclass(frozen=True, kw_only=True)
class Exit:
    """One worker's end.

    ``code`` is negative for a signal; ``t`` monotonic seconds when the agent saw it; ``asked``:
    after the agent had told it to end. ``own`` is the error that the worker itself wrote (with
    its time ``own_t``, and ``trace`` where its traceback lies); ``words`` what it printed last.
    """

    rank: int
    code: int
    t: float
    asked: bool
    log: str
    words: tuple[str, ...] = ()
    own: dict[str, Any] | None = None
    own_t: float = 0.0
    trace: str = ""

    @property
    def is_failure(self) -> bool:
        """True when it failed by itself, not because it was told to end."""
        if self.code in (0, INTERRUPTED):
            return False
        return self.own is not None or not self.asked

    @property
    def is_consequence(self) -> bool:
        """True when the worker itself says that it only lost a peer."""
        return self.own is not None and bool(self.own.get("consequence"))

    @property
    def since(self) -> float:
        """When it failed, as near as can be known."""
        if self.own is not None:
            return self.own_t
        return self.t - (_CLOSING if self.code < 0 else 0.0)


def first_cause(exits: Sequence[Exit]) -> Exit | None:
    """The failure that came first; one that only lost a peer counts when there is no other."""
    failures = [e for e in exits if e.is_failure]
    return min(failures, key=lambda e: (e.is_consequence, e.since, e.rank), default=None)


def exit_code(exits: Sequence[Exit]) -> int:
    """The agent's own exit code: 0, the first cause's 2, 3 or 4, or 130 after a stop."""
    cause = first_cause(exits)
    if cause is not None:
        return cause.code if cause.code in PASSED_ON else FAILED
    return INTERRUPTED if any(e.code for e in exits) else 0


def describe(cause: Exit, node: str) -> dict[str, Any]:
    """The cause as plain data (errors.to_dict), with ``log``: its last words, line by line."""
    error = FailedError(_what(cause), hint=_hint(cause), node=node, rank=cause.rank).to_dict()
    if cause.own is not None:
        error |= cause.own
        error |= {"node": error["node"] or node}
        error |= {"rank": cause.rank if error["rank"] is None else error["rank"]}
    return error | {"log": list(cause.words)}


def signal_name(code: int) -> str:
    """``SIGKILL`` for -9; empty for a plain exit code."""
    if code >= 0:
        return ""
    try:
        return signal.Signals(-code).name
    except ValueError:  # a real-time signal has no name
        return f"signal {-code}"


def in_words(code: int) -> str:
    """``ended with exit code 1``, ``killed by signal 9 (SIGKILL)``."""
    if code >= 0:
        return f"ended with exit code {code}"
    return f"killed by signal {-code} ({signal_name(code)})"


def _what(cause: Exit) -> str:
    how = in_words(cause.code)
    if cause.code == -signal.SIGKILL:
        return f"{how}: out of memory?"
    return "\n    ".join([f"{how}; its last words:", *cause.words[-3:]]) if cause.words else how


def _hint(cause: Exit) -> str:
    if cause.code == -signal.SIGKILL:
        return "try a smaller --batch or --set micro_batch=8, and close what else needs memory"
    return f"read {cause.log}"
