"""The machines of a run, as the person names them. Plain values; reading a file is the cli's."""

from __future__ import annotations

from dataclasses import dataclass

LOCAL = "local"


@dataclass(frozen=True, kw_only=True)
class Node:
    """One machine.

    ``user`` and ``port`` are left to ssh and its config when empty or 0, ``interface`` and
    ``devices`` to shanty. ``python`` may begin with ``~/``; ``data`` and ``workdir`` are paths on
    the node. ``devices``: indexes of its GPUs, or ``cpu`` once per rank. ``nproc``: its ranks.
    """

    name: str = LOCAL
    address: str = "127.0.0.1"
    user: str = ""
    port: int = 0
    python: str = "python3"
    workdir: str = "."
    data: str = ""
    devices: tuple[str, ...] = ()
    interface: str = ""
    nproc: int = 1

    @property
    def is_local(self) -> bool:
        """True for the operator's own machine, which is reached without ssh."""
        return self.address == LOCAL

    @property
    def login(self) -> str:
        """What ssh is given: ``user@address``, or the address alone."""
        return f"{self.user}@{self.address}" if self.user else self.address


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """The nodes in the order of their ranks; ``interface`` holds where a node names no own one."""

    nodes: tuple[Node, ...]
    interface: str = ""

    def interface_of(self, node: Node) -> str:
        """The interface that the person asked for on this node; empty: shanty chooses."""
        return node.interface or self.interface
