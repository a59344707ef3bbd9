"""Every expected failure, as one small tree.

    ShantyError
    ├── UsageError        exit 2   the command line, a config file or a path is wrong
    ├── RefusedError      exit 3   well-formed, but would fail or mislead: refused before step one
    ├── FailedError       exit 4   something broke while running
    └── InterruptedRun    exit 130 the person stopped it

An error says *what* happened, *where* (node, rank) and how to mend it (``hint``). It is printed in
one to five lines, node first, fix last. Whatever is not in this tree is our own bug and ends in a
crash file.
"""

from __future__ import annotations

from typing import Any


class ShantyError(Exception):
    """An expected failure: what, where, and the fix."""

    exit_code = 4

    def __init__(
        self, what: str, *, hint: str = "", node: str = "", rank: int | None = None
    ) -> None:
        super().__init__(what)
        self.what = what
        self.hint = hint
        self.node = node
        self.rank = rank

    def __str__(self) -> str:
        """One to five lines: the node, what happened, the fix."""
        where = self.node if self.rank is None else f"{self.node or 'node'} rank {self.rank}"
        first = f"{where}: {self.what}" if where else self.what
        return f"{first}\n  fix: {self.hint}" if self.hint else first

    def at(self, node: str, rank: int | None = None) -> ShantyError:
        """The same error with its place filled in, where it was not known before."""
        self.node = self.node or node
        self.rank = rank if self.rank is None else self.rank
        return self

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for an event or a task's answer."""
        return {
            "error": type(self).__name__,
            "what": self.what,
            "hint": self.hint,
            "node": self.node,
            "rank": self.rank,
            "exit_code": self.exit_code,
        }


class UsageError(ShantyError):
    """The command line, a config file or a path is wrong."""

    exit_code = 2


class RefusedError(ShantyError):
    """Well-formed, but it would fail or mislead: refused before the first step."""

    exit_code = 3


class FailedError(ShantyError):
    """Something broke while running."""

    exit_code = 4


class InterruptedRun(ShantyError):  # noqa: N818 - not an error: the person asked for it
    """The person stopped it."""

    exit_code = 130


_BY_NAME = {c.__name__: c for c in (UsageError, RefusedError, FailedError, InterruptedRun)}


def from_dict(data: dict[str, Any]) -> ShantyError:
    """Rebuild an error that crossed a process boundary as plain data."""
    kind = _BY_NAME.get(str(data.get("error")), FailedError)
    rank = data.get("rank")
    return kind(
        str(data.get("what", "unknown failure")),
        hint=str(data.get("hint", "")),
        node=str(data.get("node", "")),
        rank=rank if isinstance(rank, int) else None,
    )
