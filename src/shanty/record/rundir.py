"""RunDir: every path of a run, in one place."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class RunDir:
    """The folder of one run. Nothing of shanty's is written outside it."""

    root: Path

    @property
    def spec(self) -> Path:
        """What was asked: config, launch, versions."""
        return self.root / "run.json"

    @property
    def data(self) -> Path:
        """Classes, split and every sample's path and label."""
        return self.root / "data.json"

    @property
    def events(self) -> Path:
        """Folder of event files, one per rank and agent, one JSON line per event."""
        return self.root / "events"

    @property
    def logs(self) -> Path:
        """Folder of what the processes printed."""
        return self.root / "logs"

    @property
    def checkpoints(self) -> Path:
        """Folder of complete checkpoints, one folder each."""
        return self.root / "checkpoints"

    @property
    def summary(self) -> Path:
        """How the run ended, in numbers."""
        return self.root / "summary.json"

    @property
    def agent_pid(self) -> Path:
        """Who runs it now: pid and start time of the agent."""
        return self.root / "agent.json"

    @property
    def plan(self) -> Path:
        """What the agents start: readable by its owner only."""
        return self.root / "plan.json"

    def agent_log(self, node: str) -> Path:
        """What a node's agent printed: nothing, when all is well."""
        return self.logs / f"agent-{node}.log"

    def pointer(self, name: str) -> Path:
        """The small file that says which checkpoint is ``best`` or ``last``."""
        return self.root / f"{name}.json"

    def rank_events(self, rank: int) -> Path:
        """Event file of one rank."""
        return self.events / f"rank-{rank:04d}.jsonl"

    def agent_events(self, node: str) -> Path:
        """Event file of a node's agent."""
        return self.events / f"agent-{node}.jsonl"

    def rank_log(self, node: str, rank: int) -> Path:
        """What one rank's process printed."""
        return self.logs / f"{node}-rank-{rank}.log"

    def make(self) -> None:
        """Create the folder and its parts."""
        for folder in (self.root, self.events, self.logs, self.checkpoints):
            folder.mkdir(parents=True, exist_ok=True)

    def exists(self) -> bool:
        """True when a run was written here before."""
        return self.spec.exists()
