"""A new training: from what was typed to a checked order. Nothing is written here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shanty.cli.folder import check_free, check_outside, default_folder
from shanty.cli.images import check_trainable, scan
from shanty.cli.node import gpus_for
from shanty.cli.order import Order, next_attempt
from shanty.cli.ranks import choose_ranks
from shanty.cli.settings import absolute, load
from shanty.errors import UsageError
from shanty.record.rundir import RunDir
from shanty.spec.config import RunConfig
from shanty.spec.recipe import lr_rule, recipe_for, resolve
from shanty.spec.run import TrainSpec


@dataclass(frozen=True, kw_only=True)
class Request:
    """What was typed; None where nothing was. ``settings`` is by dotted key."""

    data: str | None
    out: str | None
    nproc: str | None
    config: str | None
    settings: Mapping[str, Any]
    sets: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Draft:
    """A new run whose settings and folder are fine; its images are not looked at yet."""

    config: RunConfig
    data: str
    rundir: RunDir
    nproc: str


def draft(request: Request) -> Draft:
    """The checked settings and a free folder for a new run.

    Raises:
        UsageError: settings, DATA or the run's folder are wrong.
    """
    if request.data is None:
        raise UsageError(
            "DATA is missing: which images?", hint="shanty train FOLDER, one folder per class in it"
        )
    file = Path(request.config) if request.config else None
    config = absolute(load(file, request.settings, request.sets))
    folder = _folder(request, config).resolve()
    return Draft(
        config=config, data=request.data, rundir=RunDir(folder), nproc=request.nproc or "auto"
    )


def fresh(plan: Draft, out: Path | None) -> Order:
    """The order for a new run, checked as far as this side can; the images listed in ``out``.

    Raises:
        UsageError: no such folder of images.
        RefusedError: a model, images or ranks that cannot be trained with.
    """
    config, folder = plan.config, plan.rundir.root
    images = scan(plan.data, config, out)
    ranks = choose_ranks(plan.nproc, config.device, gpus_for(config.model.name))
    check_trainable(images, config, ranks)
    spec = TrainSpec(
        run_id=folder.name,
        rundir=str(folder),
        config=resolve(config),
        recipe=recipe_for(config).name,
        lr_rule=lr_rule(config),
    )
    return Order(spec=next_attempt(spec, ranks), images=images, ranks=ranks)


def _folder(request: Request, config: RunConfig) -> Path:
    given = Path(request.out).expanduser() if request.out else None
    folder = given or default_folder(config.model.name, Path("runs"))
    check_free(folder)
    check_outside(folder, Path(request.data or "."))
    return folder
