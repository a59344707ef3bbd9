"""The program that a node runs: every part in a thread of its own, then one line of JSON.

``--root DIR`` (or ``SHANTY_PROBE_ROOT``) reads a recorded tree instead of this machine.
A part that is too slow is named in ``unfinished``, one that failed in ``problems``; neither takes
the others with it.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

from shanty.cluster.probe.board import read_gpus, read_health, read_jetson
from shanty.cluster.probe.machine import (
    read_cpu,
    read_disk,
    read_host,
    read_limits,
    read_memory,
    read_python,
    read_settings,
    read_shm,
)
from shanty.cluster.probe.network import read_interfaces, read_resolves, read_routes
from shanty.cluster.probe.processes import read_processes
from shanty.cluster.probe.tree import Tree

FORMAT = 1
LIMIT = 1.6  # seconds for all parts together; the rest of the 2 s starts Python and prints
PARTS = {
    "gpus": read_gpus,  # programs first: they answer while files are read
    "jetson": read_jetson,
    "interfaces": read_interfaces,
    "resolves": read_resolves,
    "python": read_python,
    "host": read_host,
    "cpu": read_cpu,
    "memory": read_memory,
    "shm": read_shm,
    "disk": read_disk,
    "limits": read_limits,
    "settings": read_settings,
    "routes": read_routes,
    "health": read_health,
    "processes": read_processes,
}


def main() -> int:
    """Print the facts; 0 always, since a node without some of them is still a node."""
    begun = time.time()
    parser = argparse.ArgumentParser(prog="probe")
    parser.add_argument("--root", default=os.environ.get("SHANTY_PROBE_ROOT", "/"))
    parser.add_argument("--workdir", default=".")
    asked = parser.parse_args()
    workdir = Path(os.path.abspath(os.path.expanduser(asked.workdir)))  # noqa: PTH100, PTH111
    tree = Tree(Path(asked.root), workdir)
    facts = collect(tree, LIMIT)
    synchronized = (tree.root / "run/systemd/timesync/synchronized").exists() or None
    stamps = {"begun": begun, "ended": time.time(), "monotonic": time.monotonic()}
    facts.update(probe=FORMAT, clock={**stamps, "synchronized": synchronized})
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()
    return 0


def collect(tree: Tree, limit: float) -> dict[str, Any]:
    """Every part's facts that came within ``limit`` seconds."""
    end = time.monotonic() + limit
    facts: dict[str, Any] = {}
    threads = [
        threading.Thread(target=fill, args=(facts, tree, name), daemon=True) for name in PARTS
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, end - time.monotonic()))
    done = dict(facts)  # a late thread may still add to the other
    done["unfinished"] = [name for name in PARTS if name not in done]
    done["problems"] = dict(tree.problems)
    return done


def fill(facts: dict[str, Any], tree: Tree, name: str) -> None:
    """One part; whatever goes wrong in it is told and harms no other."""
    try:
        facts[name] = PARTS[name](tree)
    except Exception as error:  # noqa: BLE001 - a strange file must not hide all other facts
        tree.problems[name] = f"{type(error).__name__}: {error}"
        facts[name] = None
