"""A run as it will be started: nodes, ranks, commands. A value that can be printed and compared."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from shanty.spec.cluster import Node


@dataclass(frozen=True, kw_only=True)
class EnvVar:
    """One environment variable with the reason why it is set."""

    name: str
    value: str
    why: str


@dataclass(frozen=True, kw_only=True)
class NodeLaunch:
    """What one node starts: ``module spec`` once per rank."""

    node: Node
    ranks: tuple[int, ...]
    env: tuple[EnvVar, ...] = ()


@dataclass(frozen=True, kw_only=True)
class LaunchPlan:
    """Everything that starting a run needs to know.

    ``module`` is the worker's entry, ``spec`` the path of the JSON file it reads (on every node).
    """

    run_id: str
    module: str
    spec: str
    rundir: str
    generation: int
    nodes: tuple[NodeLaunch, ...]

    @property
    def world_size(self) -> int:
        """Ranks over all nodes."""
        return sum(len(n.ranks) for n in self.nodes)

    def __str__(self) -> str:
        """The lines a person could type instead."""
        lines = [f"# run {self.run_id}: {self.world_size} rank(s) on {len(self.nodes)} node(s)"]
        for launch in self.nodes:
            lines += [f"# {v.name}: {v.why}" for v in launch.env]
            env = "".join(f"{v.name}={shlex.quote(v.value)} " for v in launch.env)
            lines.append(
                f"{env}{shlex.quote(launch.node.python)} -m torch.distributed.run --standalone"
                f" --nproc-per-node {len(launch.ranks)}"
                f" -m {self.module} {shlex.quote(self.spec)}"
            )
        return "\n".join(lines)
