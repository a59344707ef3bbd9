"""When the state is saved, and that all ranks agree it was."""

from __future__ import annotations

import json
import shutil
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from shanty import units
from shanty.comm.world import World
from shanty.errors import FailedError, RefusedError, ShantyError, from_dict
from shanty.record.events import EventLog, Note, Phase, Saved
from shanty.record.rundir import RunDir
from shanty.train import checkpoint
from shanty.train.parts import Parts
from shanty.train.state import TrainState, collect, describe


class Saver:
    """Writes checkpoints of one rank's parts into the run's folder.

    Args:
        rundir: the run's folder.
        parts: what is saved.
        about: facts that make a checkpoint usable alone: classes, config, view, versions.
        log: where the events go.
    """

    def __init__(self, rundir: RunDir, parts: Parts, about: dict[str, Any], log: EventLog) -> None:
        self.rundir, self.parts, self.about, self.log = rundir, parts, about, log
        self._last_save = time.monotonic()
        self._writes = writes(rundir, parts.world)

    def due(self) -> bool:
        """True on rank 0 when the last save is long enough ago."""
        minutes = self.parts.config.checkpoint.minutes
        waited = time.monotonic() - self._last_save
        return bool(minutes) and self.parts.world.rank == 0 and waited > minutes * 60

    def save(self, state: TrainState, *, epoch: int, best: bool = False) -> None:
        """Save on every node. Collective.

        Raises:
            FailedError: on all ranks, when any node could not write.
        """
        start = time.monotonic()
        self.log.write(Phase(name="saving"), state.step)
        files = collect(self.parts)
        meta = self.about | describe(self.parts, state)
        folder, error = None, None
        if self._writes:
            try:
                folder = self._write(state, files, meta, best=best)
            except ShantyError as failed:
                error = failed.at(self.parts.world.node, self.parts.world.rank)
        raise_first(self.parts.world, error)
        self._last_save = time.monotonic()
        if folder and self.parts.world.rank == 0:
            size = sum(f.stat().st_size for f in folder.iterdir())
            place = folder.relative_to(self.rundir.root).as_posix()
            took = time.monotonic() - start
            self.log.write(
                Saved(path=place, epoch=epoch, best=best, bytes=size, seconds=took), state.step
            )

    def _write(
        self, state: TrainState, files: dict[str, checkpoint.Tensors], meta: dict[str, Any],
        *, best: bool,
    ) -> Path:  # fmt: skip
        folder = checkpoint.write(self.rundir, state.step, files, meta)
        facts = {"step": state.step, "weights": meta["weights"]}
        try:
            if best:
                if state.best:
                    facts |= {"epoch": state.best_epoch + 1, "metrics": asdict(state.best)}
                checkpoint.point(self.rundir, "best", folder, facts)
            checkpoint.point(self.rundir, "last", folder, facts)
            checkpoint.prune(self.rundir, self.parts.config.checkpoint.keep, folder)
        except OSError as error:
            raise FailedError(
                f"cannot update {self.rundir.root}: {error.strerror}",
                hint="free space there or make it writable, then --resume",
            ) from error
        return folder

    def check_space(self) -> None:
        """Refuse to start where not even two checkpoints fit; warn where the kept ones may not.

        Raises:
            RefusedError: on all ranks.
        """
        one = estimate(self.parts)
        keep = self.parts.config.checkpoint.keep + 2  # the best, and one being written
        error = None
        if self._writes:
            free = shutil.disk_usage(self.rundir.checkpoints).free
            if free < 2 * one:
                error = RefusedError(
                    f"{self.rundir.root} has {free:,} bytes free; two checkpoints need {2 * one:,}",
                    hint="free space, or choose another --out",
                ).at(self.parts.world.node)
            elif free < keep * one:
                text = f"{units.size(free)} free in {self.rundir.root}, {keep} checkpoints may need"
                self.log.write(Note(text=f"{text} {units.size(keep * one)}", level="warning"))
        raise_first(self.parts.world, error)


def writes(rundir: RunDir, world: World) -> bool:
    """True on the ranks that write this folder: one per node, or rank 0 where nodes share it.

    Collective. Two nodes that started under mpirun with the run's folder on a network disk would
    otherwise write, and prune, the same files.
    """
    if world.place.one_machine:
        return world.is_writer
    mark = rundir.root / f".shared-{world.generation}"
    if world.rank == 0:
        mark.touch()
    world.gather([0.0])
    shared = mark.exists()
    world.gather([0.0])
    if world.rank == 0:
        mark.unlink()
    return world.rank == 0 or (world.is_writer and not shared)


def estimate(parts: Parts) -> int:
    """Bytes of one checkpoint: weights, averages, optimizer (one or two values a weight)."""
    sizes = [t.numel() * t.element_size() for t in parts.model.state_dict().values()]
    trained = sum(p.numel() * p.element_size() for p in parts.trained)
    moments = 1 if parts.config.optim.name == "sgd" else 2
    return sum(sizes) * (2 if parts.ema else 1) + trained * moments


def raise_first(world: World, error: ShantyError | None) -> None:
    """Raise the first rank's error on all ranks. Collective."""
    mine = json.dumps(error.to_dict()).encode() if error else b""
    for text in world.gather_bytes(mine):
        if text:
            raise error or from_dict(json.loads(text))
