"""Story: events in, lines out. All that is decided about the live view, without a terminal."""

from __future__ import annotations

from dataclasses import dataclass

from shanty import units
from shanty.record.events import (
    BadImage,
    Banner,
    Ended,
    EpochDone,
    Event,
    Note,
    Phase,
    Progress,
    Saved,
    Started,
    StepDone,
    StepSkipped,
    Validated,
)
from shanty.watch import words
from shanty.watch.pace import Pace

SHOWN = 5  # bad images and skipped steps that are named at once; all are in the event files


@dataclass(frozen=True, kw_only=True)
class Bar:
    """The line that is drawn over and over: how much is done, and the words beside it.

    ``total`` is 0 while there is nothing to count.
    """

    done: int
    total: int
    text: str


class Story:
    """What has happened so far, as a person is told it.

    ``place`` is the run's folder as shown in hints.
    """

    def __init__(self, place: str) -> None:
        self.place = place
        self.pace = Pace()
        self.trained = False  # a first step was taken
        self._phases: dict[int, str] = {}
        self._ranks = 0
        self._progress: Progress | None = None
        self._epoch: EpochDone | None = None
        self._result: Validated | None = None
        self._best = False
        self._rate = 0.0
        self._told: set[tuple[str, object]] = set()
        self._counts = {"bad images": 0, "skipped steps": 0}

    def take(self, events: list[Event]) -> list[str]:
        """The lines that these events add."""
        return [line for event in events for line in self._one(event)]

    def _one(self, event: Event) -> list[str]:
        body = event.body
        if isinstance(body, Started):
            return self._started(event.rank, body)
        if isinstance(body, Phase):
            return self._phase(event.rank, body)
        if isinstance(body, Note):
            return self._note(event, body)
        if isinstance(body, BadImage):
            new = self._first("bad", (body.use, body.path))
            return self._some("bad images", words.bad_image(body)) if new else []
        if isinstance(body, StepSkipped):
            lines = words.skipped(event.step, body)
            return self._some("skipped steps", lines) if _speaks(event.rank, body) else []
        return self._of_first_rank(event) if event.rank == 0 else []

    def _of_first_rank(self, event: Event) -> list[str]:
        """Events that all ranks tell alike: rank 0 speaks."""
        body = event.body
        if isinstance(body, Banner):
            self.pace.begin(body)
            return words.banner(body)
        if isinstance(body, StepDone):
            return self._step(event.step, body)
        if isinstance(body, EpochDone):
            lines = self.flush()
            self._epoch, self._progress = body, None
            self._rate = self.pace.end_epoch()
            return lines
        if isinstance(body, Validated):
            self._result, self._progress = body, None
            self.pace.validated(body)
        elif isinstance(body, Saved):
            self._best = self._best or body.best
        elif isinstance(body, Progress):
            self._progress = body
        elif isinstance(body, Ended):
            return self.flush()
        return []

    def _started(self, rank: int, body: Started) -> list[str]:
        self._ranks = max(self._ranks, body.world_size, rank + 1)
        if rank >= 0:
            self._phases[rank] = "started"
        return []

    def _phase(self, rank: int, body: Phase) -> list[str]:
        self._phases[rank] = body.name
        done = rank == 0 and body.name not in ("saving", "validating")
        return self.flush() if done else []

    def _note(self, event: Event, body: Note) -> list[str]:
        if not self._first("note", (event.gen, body.text)):
            return []
        where = f"{event.node}: " if body.level != "note" and event.node else ""
        return words.wrap(f"{body.level}: {where}{body.text}")

    def _step(self, number: int, body: StepDone) -> list[str]:
        self.trained, self._progress = True, None
        self.pace.step(number, body)
        return self.flush()

    def flush(self) -> list[str]:
        """The line of the epoch that is complete now, when there is one."""
        done, result, best = self._epoch, self._result, self._best
        self._epoch, self._result, self._best = None, None, False
        if done is None:
            return []
        return [words.epoch(done, result, (self.pace.epochs, self._rate), best=best)]

    def _first(self, kind: str, key: object) -> bool:
        """True the first time: every rank tells the same thing once."""
        new = (kind, key) not in self._told
        self._told.add((kind, key))
        return new

    def _some(self, kind: str, lines: list[str]) -> list[str]:
        self._counts[kind] += 1
        if self._counts[kind] <= SHOWN:
            return lines
        if self._counts[kind] == SHOWN + 1:
            return words.wrap(f"more {kind}: counted at the end, listed in {self.place}/events")
        return []

    def bar(self) -> Bar:
        """What the moving line shows now."""
        phase = self._phases.get(0, "")
        if self._progress is not None:
            done, total = self._progress.done, self._progress.total
            what = self._progress.what or phase
            text = f"{what} {units.count(done)}/{units.count(total)}"
            return Bar(done=done, total=total, text=text)
        if not self.pace.total or not self.trained:
            return Bar(done=0, total=0, text=f"starting: {self._who()}")
        text = words.progress(self.pace)
        busy = f"  {phase}" if phase in ("validating", "saving") else ""
        return Bar(done=self.pace.done, total=self.pace.total, text=text + busy)

    def waiting(self, seconds: float) -> str:
        """What a long silence means: who is still doing what."""
        verb = "waiting" if self.trained else "still starting"
        return f"{verb}: {self._who()} ({seconds:.0f} s)"

    def _who(self) -> str:
        """``rank 0 and 1 joining, rank 2 importing torch``: a rank is silent until it has torch."""
        phases: dict[str, list[int]] = {}
        for rank in range(self._ranks):
            phases.setdefault(self._phases.get(rank, "importing torch"), []).append(rank)
        names = [f"rank {_ranks(ranks)} {phase}" for phase, ranks in phases.items()]
        return ", ".join(names) or "no rank has begun yet"


def _speaks(rank: int, body: StepSkipped) -> bool:
    """The rank that was not finite names its images; rank 0 speaks where no rank is to blame."""
    blamed = [where for where in body.where if where.startswith("rank ")]
    return f"rank {rank}" in blamed or (not blamed and rank == 0)


def _ranks(ranks: list[int]) -> str:
    """``0``, ``0 and 2`` or ``0-3``."""
    if len(ranks) > 2 and ranks[-1] - ranks[0] == len(ranks) - 1:
        return f"{ranks[0]}-{ranks[-1]}"
    return " and ".join(str(r) for r in ranks) if len(ranks) < 3 else ", ".join(map(str, ranks))
