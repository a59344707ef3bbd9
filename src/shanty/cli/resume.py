"""Continuing a run: the same settings and images, in the same folder, with any number of ranks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from shanty.cli.folder import shown
from shanty.cli.images import Found, difference, saved, scan
from shanty.cli.node import gpus_for
from shanty.cli.order import Order, next_attempt
from shanty.cli.ranks import choose_ranks
from shanty.cli.settings import build, table_of
from shanty.cli.start import Request
from shanty.cluster.running import running
from shanty.errors import RefusedError, UsageError
from shanty.record.atomic import read_json, write_json
from shanty.record.rundir import RunDir
from shanty.scan.dataset import DataSet
from shanty.spec.codec import to_dict
from shanty.spec.config import RunConfig
from shanty.spec.run import TrainSpec, read_spec


def continued(request: Request, folder: str) -> Order:
    """The order that continues the run in ``folder``.

    Only ``--nproc`` and ``checkpoint.*`` may differ from the run as it was started. DATA may name
    the place the same images have moved to.

    Raises:
        UsageError: no run there, or another setting was given.
        RefusedError: it is still going on, has no checkpoint, or its images have changed.
    """
    rundir = RunDir(Path(folder).expanduser().resolve())
    spec = _spec_of(rundir)
    spec = replace(spec, rundir=str(rundir.root), config=_changed(request, spec.config))
    _check_idle(rundir)
    images = _same_images(saved(rundir), request.data, spec.config)
    before = spec.attempts[-1].world_size if spec.attempts else 0
    asked = request.nproc or (str(before) if before else "auto")
    ranks = choose_ranks(asked, spec.config.device, gpus_for())
    spec = next_attempt(replace(spec, resume=True), ranks)
    return Order(spec=spec, images=images, ranks=ranks, before=before)


def _spec_of(rundir: RunDir) -> TrainSpec:
    if not rundir.exists():
        raise UsageError(
            f"no run in {shown(rundir.root)}",
            hint="give the folder that a shanty train wrote, the one with run.json in it",
        )
    return read_spec(TrainSpec, rundir.spec)


def _changed(request: Request, config: RunConfig) -> RunConfig:
    """The run's config with what may change changed."""
    table = table_of(None, request.settings, request.sets)
    fixed = [given.origin for key, given in table.items() if not key.startswith("checkpoint.")]
    fixed += [f"--{name}" for name in ("out", "config") if getattr(request, name) is not None]
    if fixed:
        raise UsageError(
            f"{', '.join(fixed)} cannot change in a resumed run",
            hint="leave it out, or start a new run; --nproc and --set checkpoint.* may change",
        )
    asked = build(table).checkpoint
    names = [key.rpartition(".")[2] for key in table]
    new = replace(config.checkpoint, **{name: getattr(asked, name) for name in names})
    return replace(config, checkpoint=new)


def _check_idle(rundir: RunDir) -> None:
    pid = running(rundir.root)
    if pid is not None:
        raise RefusedError(
            f"the run in {shown(rundir.root)} is still going on, its agent has pid {pid}",
            hint=f"wait for it, or stop it: kill {pid}",
        )
    if not any(rundir.checkpoints.glob("step-*")):
        raise RefusedError(
            f"the run in {shown(rundir.root)} has no complete checkpoint to continue from",
            hint="start anew: shanty train DATA --out ANOTHER_DIR",
        )


def _same_images(old: DataSet, moved_to: str | None, config: RunConfig) -> Found:
    root = moved_to or old.root
    now = scan(root, config)
    if now.digest != old.digest:
        raise RefusedError(
            f"the images in {now.root} are not those the run began with: "
            + difference(old, root, config),
            hint="put them back as they were, or start a new run",
        )
    return now


def write(order: Order) -> None:
    """Write the run's order anew, and where its images lie now."""
    data = read_json(order.rundir.data)
    if data["root"] != order.images.root:
        write_json(order.rundir.data, data | {"root": order.images.root})
    write_json(order.rundir.spec, to_dict(order.spec))
