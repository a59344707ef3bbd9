"""Processes of shanty's that run on the node: a run of now, or what an old one left."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from shanty.cluster.probe.tree import Tree, text


def read_processes(tree: Tree) -> list[dict[str, Any]]:
    """Agents, workers, tasks, and whatever a worker started (it inherits SHANTY_NODE).

    With pid, start time and boot, so that each can be proven to be the same one later.
    """
    now = float((tree.text("proc/uptime") or "0").split()[0])
    own = Path(str(os.getpid()))
    found = (process(p, now) for p in tree.find("proc/[0-9]*") if p.name != own.name)
    return [entry for entry in found if entry]


def process(folder: Path, now: float) -> dict[str, Any] | None:
    """One process, if it is of shanty's."""
    words = (text(folder / "cmdline") or "").split("\0")
    environ = dict(
        pair.split("=", 1) for pair in (text(folder / "environ") or "").split("\0") if "=" in pair
    )
    role = role_of(words, environ)
    fields = (text(folder / "stat") or "").rpartition(")")[2].split()
    if role is None or len(fields) < 20:  # not ours, or gone meanwhile
        return None
    start = int(fields[19])
    agent = environ.get("SHANTY_AGENT_PID", "")
    return {
        "pid": int(folder.name),
        "start": start,
        "age": round(now - start / os.sysconf("SC_CLK_TCK"), 1),
        "role": role,
        "agent": int(agent) if agent.isdigit() and role == "worker" else None,
        "run": run_of(words),
        "command": " ".join(words)[:300],
    }


def role_of(words: list[str], environ: dict[str, str]) -> str | None:
    """agent, task or worker; None for a process that is not of shanty's."""
    module = (words[words.index("-m") + 1 :] or [""])[0] if "-m" in words else ""
    if re.match(r"shanty\.(agent|task)$", module):
        return module[len("shanty.") :]
    is_worker = re.match(r"shanty\.(train|predict)\.", module) or environ.get("SHANTY_NODE")
    return "worker" if is_worker else None


def run_of(words: list[str]) -> str | None:
    """The run's folder: agents and workers are given a JSON file that lies in it."""
    files = [word for word in words if word.startswith("/") and word.endswith(".json")]
    return str(Path(files[0]).parent) if files else None
