"""A board's firewall, as ufw or a company image sets one: what is not allowed is not answered."""

from __future__ import annotations

from collections.abc import Sequence

from shanty.errors import FailedError, RefusedError
from shanty.lab.enter import Inside, whole
from shanty.lab.needs import program

_CHAIN = "SHANTY-LAB"


def close(host: Inside, ports: Sequence[int]) -> None:
    """Drop what would open a new connection to ``eno1``, but to these ports."""
    open_up(host)
    tool = _tool(host)
    if not tool:
        raise RefusedError("no iptables that works here", hint="sudo apt-get install iptables")
    _tables(host, tool, "-N", _CHAIN)
    for port in ports:
        _tables(host, tool, "-A", _CHAIN, "-p", "tcp", "--dport", str(port), "-j", "RETURN")
    _tables(host, tool, "-A", _CHAIN, "-p", "tcp", "--syn", "-j", "DROP")
    _tables(host, tool, "-I", "INPUT", "-i", "eno1", "-j", _CHAIN)


def closed(host: Inside) -> bool:
    """True when a firewall of ours is in force."""
    tool = _tool(host)
    return bool(tool) and f"-j {_CHAIN}" in _tables(host, tool, "-S")


def open_up(host: Inside) -> None:
    """No firewall of ours, whole or half made."""
    tool = _tool(host)
    rules = _tables(host, tool, "-S") if tool else ""
    if f"-j {_CHAIN}" in rules:
        _tables(host, tool, "-D", "INPUT", "-i", "eno1", "-j", _CHAIN)
    if f"-N {_CHAIN}" in rules:
        _tables(host, tool, "-F", _CHAIN)
        _tables(host, tool, "-X", _CHAIN)


def _tool(host: Inside) -> str:
    """The kind of iptables that this kernel has; the older one where it has both."""
    for name in ("iptables-legacy", "iptables"):
        tool = program(name)
        try:
            if tool and _tables(host, tool, "-S"):
                return tool
        except FailedError:
            continue
    return ""


def _tables(host: Inside, tool: str, *words: str) -> str:
    """Run iptables there. Its lock file would lie in the machine's /run, which op shares."""
    return whole(host, "env", "XTABLES_LOCKFILE=/dev/null", tool, *words)
