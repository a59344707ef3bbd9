"""Real ranks for tests, forked from a server that has torch loaded: a crew starts in a moment."""

from __future__ import annotations

import os
import pickle
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from PIL import Image

from shanty.comm.place import Place
from shanty.comm.world import World, join
from shanty.errors import InterruptedRun
from shanty.record.atomic import read_json, write_json
from shanty.record.events import EventLog
from shanty.record.reader import read_all
from shanty.record.rundir import RunDir
from shanty.scan.training import scan_training
from shanty.spec.codec import from_dict, to_dict
from shanty.spec.config import RunConfig
from shanty.spec.recipe import resolve
from shanty.spec.run import Attempt, TrainSpec
from shanty.train.process import Process
from shanty.train.worker import work

T = TypeVar("T")
PRELOAD = ["torch", "torch._dynamo", "timm", "shanty.train.worker"]


def run_ranks(count: int, work: Callable[..., Any], *args: Any, limit: float = 120) -> list[Any]:
    """``work(world, *args)`` on ``count`` real gloo ranks; their results in rank order.

    An exception in a rank is raised here with the rank's number.
    """
    return start_ranks(count, _in_world, work, *args, limit=limit)


def start_ranks(count: int, entry: Callable[..., Any], *args: Any, limit: float = 120) -> list[Any]:
    """``entry(place, *args)`` in ``count`` processes; results in rank order."""
    context = get_context("forkserver")
    context.set_forkserver_preload(PRELOAD)
    folder = tempfile.mkdtemp(prefix="ranks-")
    crew = []
    try:
        for rank in range(count):
            ours, theirs = context.Pipe()
            task = context.Process(
                target=_child, args=(theirs, rank, count, f"{folder}/store", entry, args)
            )
            task.start()
            theirs.close()
            crew.append((task, ours))
        return [_result(rank, ours, limit) for rank, (_, ours) in enumerate(crew)]
    finally:
        for task, _ in crew:
            task.kill()
            task.join()
        shutil.rmtree(folder)


def _result(rank: int, pipe: Connection, limit: float) -> Any:
    if not pipe.poll(limit):
        raise TimeoutError(f"rank {rank} gave no answer in {limit} s")
    try:
        kind, value = pickle.loads(pipe.recv_bytes())  # noqa: S301 - our own child wrote it
    except EOFError:
        raise RuntimeError(f"rank {rank} died without an answer") from None
    if kind == "error":
        raise value
    return value


def _child(
    pipe: Connection, rank: int, count: int, store: str, entry: Callable[..., Any], args: Any
) -> None:
    place = Place(
        rank=rank,
        world_size=count,
        local_rank=rank,
        local_world_size=count,
        node="local",
        launcher="test",
        store=f"file:{store}",
    )
    try:
        answer = ("value", entry(place, *args))
    except BaseException as error:  # noqa: BLE001 - it is raised again in the test
        answer = ("error", error)
    # By value: a tensor sent as a shared file would be gone with this process.
    pipe.send_bytes(pickle.dumps(answer))
    pipe.close()
    os._exit(0)


def _in_world(place: Place, work: Callable[..., Any], *args: Any) -> Any:
    torch.set_num_threads(1)
    world: World = join(place, device="cpu", timeout=60)
    result = work(world, *args)
    world.leave()
    return result


def make_photos(root: Path, counts: dict[str, int], *, size: int = 40, seed: int = 0) -> Path:
    """Class folders of small PNG pictures: noise over a colour that tells the class."""
    rng = np.random.default_rng(seed)
    for place, (name, count) in enumerate(counts.items()):
        (root / name).mkdir(parents=True)
        for number in range(count):
            pixels = rng.integers(0, 120, (size, size, 3), dtype=np.uint8)
            pixels[..., place % 3] += 100
            Image.fromarray(pixels).save(root / name / f"{number:03d}.png")
    return root


def prepare(data: Path, out: Path, config: RunConfig) -> RunDir:
    """A run's folder as ``shanty train --prepare`` makes it."""
    rundir = RunDir(out)
    rundir.make()
    found = scan_training(
        data,
        labels=config.data.labels,
        val_fraction=config.data.val_fraction,
        seed=config.seed,
        empty_class=config.data.empty_class,
    )
    write_json(rundir.data, to_dict(found))
    spec = TrainSpec(
        run_id=out.name,
        rundir=str(out),
        config=resolve(config),
        recipe="test",
        lr_rule="as given",
        threads=1,
        attempts=(Attempt(generation=0, started="", world_size=1),),
    )
    write_json(rundir.spec, to_dict(spec))
    return rundir


def train(
    rundir: RunDir, ranks: int, *, resume: bool = False, stop_after: int = 0, limit: float = 120
) -> list[Any]:
    """Train the prepared run on real ranks; each rank's final state as plain data.

    ``stop_after``: rank 0 is asked to stop when it has been asked that many times whether to.
    """
    spec = from_dict(TrainSpec, read_json(rundir.spec))
    generation = spec.generation + (1 if resume else 0)
    attempt = Attempt(generation=generation, started="", world_size=ranks)
    attempts = (*spec.attempts, attempt) if resume else (attempt,)
    write_json(rundir.spec, to_dict(replace(spec, resume=resume, attempts=attempts)))
    return start_ranks(ranks, train_rank, rundir.root, stop_after, limit=limit)


def train_rank(place: Place, root: Path, stop_after: int) -> Any:
    """One rank of a training, as the worker's main does it, in this process."""

    class Stopped(Process):
        asked = 0

        def stopping(self) -> bool:
            self.asked += 1
            return bool(stop_after) and place.rank == 0 and self.asked > stop_after

    rundir = RunDir(root)
    spec = from_dict(TrainSpec, read_json(rundir.spec))
    log = EventLog(
        rundir.rank_events(place.rank), node=place.node, rank=place.rank, gen=spec.generation
    )
    try:
        return work(rundir, spec, Stopped(place, log))
    except InterruptedRun as stopped:
        return {"stopped": stopped.what}


@dataclass(frozen=True, kw_only=True)
class Seen(Generic[T]):
    """An event of one known kind."""

    rank: int
    step: int
    body: T


def events(rundir: RunDir, kind: type[T], *, rank: int | None = None) -> list[Seen[T]]:
    """The run's events of one kind."""
    return [
        Seen(rank=e.rank, step=e.step, body=e.body)
        for e in read_all(rundir.events)
        if isinstance(e.body, kind) and rank in (None, e.rank)
    ]
