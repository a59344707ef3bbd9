"""What a worker reads: the order for a training, evaluation or prediction, as plain data."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from shanty.errors import UsageError
from shanty.spec.codec import from_dict
from shanty.spec.config import RunConfig

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """One start of a run: its number, when (wall clock, UTC) and with how many ranks."""

    generation: int
    started: str
    world_size: int


@dataclass(frozen=True, kw_only=True)
class TrainSpec:
    """``run.json`` of a training. ``config`` is resolved: no *auto* of the recipe is left in it.

    ``threads`` is the processor threads of one rank (None: cores divided by local ranks);
    ``recipe`` and ``lr_rule`` are the words of the banner; ``resume`` asks for the newest
    complete checkpoint of the same folder. ``attempts`` ends with the current one.
    """

    run_id: str
    rundir: str
    config: RunConfig
    recipe: str
    lr_rule: str
    threads: int | None = None
    resume: bool = False
    attempts: tuple[Attempt, ...] = ()
    versions: dict[str, str] = field(default_factory=dict)

    @property
    def generation(self) -> int:
        """How many times the run was started before this time."""
        return self.attempts[-1].generation if self.attempts else 0


@dataclass(frozen=True, kw_only=True)
class EvaluateSpec:
    """Order for one evaluation: the run's ``which`` checkpoint on ``data`` (a saved DataSet)."""

    run_id: str
    rundir: str
    run: str
    data: str
    which: str = "best"
    threads: int | None = None
    device: str = "auto"


@dataclass(frozen=True, kw_only=True)
class PredictSpec:
    """Order for one prediction: probabilities of ``runs`` averaged over the images of a layout.

    ``layout`` is a JSON file (predict.layout.Layout) whose paths are relative to ``root``; the
    submission goes to ``out``. ``tta`` adds a left-right flipped view of every image.
    """

    run_id: str
    rundir: str
    runs: tuple[str, ...]
    root: str
    layout: str
    out: str
    force: bool = False
    which: str = "best"
    tta: bool = False
    threads: int | None = None
    device: str = "auto"


def read_spec(kind: type[T], path: Path) -> T:
    """Read a worker's order.

    Raises:
        UsageError: the file is missing or is no such order.
    """
    try:
        return from_dict(kind, json.loads(path.read_bytes().decode("utf-8", "surrogateescape")))
    except FileNotFoundError:
        raise UsageError(
            f"no order file at {path}", hint="make one: shanty train DATA --out DIR --prepare"
        ) from None
    except (ValueError, TypeError) as error:
        raise UsageError(
            f"{path} is not a {kind.__name__}: {error}", hint="make it anew with --prepare"
        ) from error
