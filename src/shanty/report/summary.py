"""A run in a few values: its epochs, its best result, what was left out."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from shanty.record.events import BadImage, EpochDone, Event, Saved, StepSkipped, Validated
from shanty.record.reader import parse


@dataclass(frozen=True, kw_only=True)
class Summary:
    """What a run's events add up to.

    ``results`` holds the last validation of every epoch, in order; ``best`` and ``last`` are the
    newest checkpoints of that name.
    """

    epochs: int = 0
    results: tuple[Validated, ...] = ()
    best: Saved | None = None
    last: Saved | None = None
    bad: tuple[BadImage, ...] = ()
    skipped: tuple[int, ...] = ()

    @property
    def best_result(self) -> Validated | None:
        """The validation that belongs to the best checkpoint, or the last one."""
        if self.best is None:
            return self.results[-1] if self.results else None
        return next((r for r in self.results if r.epoch == self.best.epoch), None)


def summarise(events: Iterable[Event]) -> Summary:
    """Add up events; every rank tells the same, so the first teller of a thing counts."""
    summary = Summary()
    for event in sorted(events, key=lambda e: (e.gen, e.t)):
        summary = add(summary, event)
    return summary


def add(summary: Summary, event: Event) -> Summary:
    """The summary with one more event in it."""
    body = event.body
    if isinstance(body, EpochDone):
        return replace(summary, epochs=max(summary.epochs, body.epoch + 1))
    if isinstance(body, Validated):
        others = tuple(r for r in summary.results if r.epoch != body.epoch)
        return replace(summary, results=(*others, body))
    if isinstance(body, Saved):
        return replace(summary, last=body, best=body if body.best else summary.best)
    if isinstance(body, BadImage):
        known = {(b.use, b.path) for b in summary.bad}
        return summary if (body.use, body.path) in known else _with_bad(summary, body)
    if isinstance(body, StepSkipped) and event.step not in summary.skipped:
        return replace(summary, skipped=(*summary.skipped, event.step))
    return summary


def numbers(summary: Summary, exit_code: int) -> dict[str, Any]:
    """The summary as plain data, for ``summary.json``."""
    return {
        "exit_code": exit_code,
        "epochs": summary.epochs,
        "best": asdict(summary.best_result) if summary.best_result else None,
        "best_checkpoint": summary.best.path if summary.best else None,
        "last_checkpoint": summary.last.path if summary.last else None,
        "validations": [asdict(result) for result in summary.results],
        "left_out": [asdict(image) for image in summary.bad],
        "skipped_steps": list(summary.skipped),
    }


def _with_bad(summary: Summary, body: BadImage) -> Summary:
    return replace(summary, bad=(*summary.bad, body))


def read_summary(events: Path) -> Summary:
    """The summary of all of a run's event files.

    Steps are passed over unparsed: a long run has a million of them, and none matters here.
    """
    wanted = tuple(
        json.dumps({"kind": kind.__name__})[:-1]
        for kind in (EpochDone, Validated, Saved, BadImage, StepSkipped)
    )
    found: list[Event] = []
    for path in sorted(events.glob("*.jsonl")):
        with path.open(encoding="utf-8", errors="surrogateescape", newline="\n") as file:
            found += parse("\n".join(line for line in file if line.startswith(wanted)))
    return summarise(found)
