"""This machine as a node: its Python, its folder, its cores."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from shanty.spec.cluster import Node


def local_node(nproc: int = 1) -> Node:
    """The node ``local``: this very Python, the current folder."""
    return Node(name="local", python=sys.executable, workdir=str(Path.cwd()), nproc=nproc)


def usable_cores() -> int:
    """Processor cores this process may use (an affinity mask counts)."""
    return max(1, len(os.sched_getaffinity(0)))
