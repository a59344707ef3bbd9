"""Events: one JSON line each. A union of small records in a common envelope.

Envelope: monotonic seconds ``t`` (never wall clock), ``gen`` (how many times the run was started),
``node``, ``rank`` (-1: an agent) and ``step`` (global optimizer step, -1: none). Each file starts
with a ``Started`` that ties the monotonic clock to the wall clock once.
"""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, TextIO, get_args

from shanty.errors import UsageError
from shanty.spec.codec import from_dict


@dataclass(frozen=True, kw_only=True)
class Started:
    """A process began; ties ``t`` to the wall clock."""

    wall: float
    pid: int
    host: str
    world_size: int = 0
    what: str = "worker"


@dataclass(frozen=True, kw_only=True)
class Phase:
    """A rank entered a phase: joining, building, training, validating, saving, predicting."""

    name: str


@dataclass(frozen=True, kw_only=True)
class Banner:
    """What was derived from the config, as label and text, in reading order."""

    lines: tuple[tuple[str, str], ...]
    epochs: int
    steps_per_epoch: int
    first_step: int


@dataclass(frozen=True, kw_only=True)
class StepDone:
    """A committed step: mean ``loss`` over the global batch; times are this rank's seconds."""

    epoch: int
    loss: float
    images: int
    lr: float
    wall: float
    data: float = 0.0
    forward: float = 0.0
    backward: float = 0.0
    wait: float = 0.0
    optimizer: float = 0.0


@dataclass(frozen=True, kw_only=True)
class StepSkipped:
    """A step that all ranks rolled back because a loss or gradient was not finite."""

    epoch: int
    where: tuple[str, ...]
    files: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class BadImage:
    """An image that could not be used: left out on all ranks alike, never replaced."""

    path: str
    reason: str
    use: str


@dataclass(frozen=True, kw_only=True)
class EpochDone:
    """One pass over the training images."""

    epoch: int
    loss: float
    images: int
    bad: int
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Validated:
    """Exact metrics over ``count`` images; equal for any number of ranks."""

    epoch: int
    weights: str
    count: int
    accuracy: float
    top5: float
    log_loss: float
    macro_f1: float
    seconds: float
    bad: int = 0


@dataclass(frozen=True, kw_only=True)
class Saved:
    """A complete checkpoint lies at ``path`` (relative to the run's folder)."""

    path: str
    epoch: int
    best: bool
    bytes: int
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Progress:
    """Part of a task that has no steps: evaluation, prediction."""

    done: int
    total: int
    what: str


@dataclass(frozen=True, kw_only=True)
class Note:
    """A sentence for the person."""

    text: str
    level: str = "note"


@dataclass(frozen=True, kw_only=True)
class Failed:
    """An error, as errors.to_dict gives it, and where its traceback lies."""

    error: dict[str, Any]
    trace: str = ""


@dataclass(frozen=True, kw_only=True)
class Ended:
    """A process is about to end, or (from an agent) all its workers have ended."""

    exit_code: int
    reason: str = ""
    result: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class WorkerExit:
    """An agent saw a worker end: its code, or the signal that ended it."""

    worker: int
    pid: int
    code: int
    signal: str = ""


Body = (
    Started
    | Phase
    | Banner
    | StepDone
    | StepSkipped
    | BadImage
    | EpochDone
    | Validated
    | Saved
    | Progress
    | Note
    | Failed
    | Ended
    | WorkerExit
)
KINDS: dict[str, type[Any]] = {k.__name__: k for k in get_args(Body)}


@dataclass(frozen=True, kw_only=True)
class Event:
    """A body in its envelope."""

    t: float
    gen: int
    node: str
    rank: int
    step: int
    body: Body

    def to_line(self) -> str:
        """One JSON line, with the newline."""
        head = {"kind": type(self.body).__name__, "t": round(self.t, 6), "gen": self.gen}
        place = {"node": self.node, "rank": self.rank, "step": self.step}
        return json.dumps(head | place | asdict(self.body), ensure_ascii=False) + "\n"


def from_line(line: str) -> Event:
    """Parse one line.

    Raises:
        ValueError: not a whole event (a torn tail, or another program's or version's line).
    """
    data = json.loads(line)
    if not isinstance(data, dict) or str(data.get("kind")) not in KINDS:
        raise ValueError("not an event")
    kind = KINDS[data.pop("kind")]
    try:
        head = {k: data.pop(k) for k in ("t", "gen", "node", "rank", "step")}
        return Event(body=from_dict(kind, data), **head)
    except (KeyError, TypeError, UsageError) as error:
        raise ValueError(f"not an event of this version: {error}") from error


class EventLog:
    """Appends events of one process to its file, a whole line at a time."""

    def __init__(self, path: Path, *, node: str, rank: int, gen: int) -> None:
        self.node, self.rank, self.gen = node, rank, gen
        self.last_step = -1
        path.parent.mkdir(parents=True, exist_ok=True)
        torn = path.exists() and path.stat().st_size > 0 and not _ends_with_newline(path)
        self._file: TextIO = path.open("a", encoding="utf-8", errors="surrogateescape")
        if torn:
            self._file.write("\n")

    def write(self, body: Body, step: int = -1) -> None:
        """Append one event, stamped now."""
        self.last_step = max(step, self.last_step)
        event = Event(
            t=time.monotonic(), gen=self.gen, node=self.node, rank=self.rank, step=step, body=body
        )
        self._file.write(event.to_line())
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __enter__(self) -> EventLog:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _ends_with_newline(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(-1, 2)
        return file.read(1) == b"\n"
