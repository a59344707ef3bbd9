"""One change to a lab at a time, by its word."""

from __future__ import annotations

from typing import Any

from shanty.errors import UsageError
from shanty.lab import build, faults, processes
from shanty.lab.enter import inside
from shanty.lab.state import OPERATOR, Lab, folder_of, load, locked


def change(name: str, word: str, node: str, *values: Any, **named: Any) -> str:
    """Make one fault, or undo it; the sentence that says what is so now.

    Raises:
        UsageError: a host or value that is none.
        RefusedError: there is no such lab, or another command is busy with it.
        FailedError: it did not take effect.
    """
    with locked(folder_of(name)):
        lab = load(name)
        lab.host(node)
        return _WORDS[word](lab, node, *values, **named)


def kill(lab: Lab, name: str, pid: int | None) -> str:
    """Kill the process ``pid`` of a host, or without one cut the board's power."""
    if pid is not None:
        return processes.kill(inside(lab, name), pid)
    _only_board(name)
    build.power_off(lab, name)
    return f"{name}: the power is off"


def boot(lab: Lab, name: str) -> str:
    """Start a board anew."""
    _only_board(name)
    build.boot(lab, name)
    return f"{name}: booted, its disk is empty"


def _only_board(name: str) -> None:
    if name == OPERATOR:
        raise UsageError("op is no board", hint="choose n1, n2, …")


_WORDS = {
    "cut": faults.cut,
    "heal": faults.heal,
    "link": faults.link,
    "firewall": faults.close,
    "mtu": faults.mtu,
    "fill": faults.fill,
    "freeze": faults.freeze,
    "thaw": faults.thaw,
    "kill": kill,
    "boot": boot,
}
