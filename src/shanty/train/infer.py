"""Logits for a list of images on all ranks: the same bytes for any number of ranks.

Whole canonical batches (fixed size, fixed order) are dealt to ranks, and inside a rank to
threads. Each batch is computed by one thread with one processor thread of torch, so neither the
number of ranks nor the number of threads changes a single rounding.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from shanty.comm.world import World
from shanty.data.decode import UndecodableError
from shanty.errors import FailedError
from shanty.train.build import Norm
from shanty.train.precision import Precision

_GLANCE = 0.5  # seconds between looks at what is stuck
ReadImage = Callable[[int], NDArray[np.uint8]]


@dataclass(frozen=True, kw_only=True)
class Network:
    """A model ready to be asked, with what its input needs."""

    model: nn.Module
    norm: Norm
    precision: Precision
    classes: int


@dataclass(frozen=True, kw_only=True)
class Asked:
    """``count`` images, read by number; ``batch`` is the canonical size."""

    count: int
    read: ReadImage
    size: int
    batch: int
    threads: int
    limit: float


@dataclass(frozen=True, kw_only=True)
class Answer:
    """``logits``: float32 [count, classes] on the CPU, in order; rows of bad images are NaN."""

    logits: torch.Tensor
    bad: dict[int, str]


@dataclass(frozen=True, kw_only=True)
class _Part:
    start: int
    logits: torch.Tensor
    bad: dict[int, str]


def infer(
    network: Network,
    asked: Asked,
    world: World,
    *,
    on_progress: Callable[[int], None],
    should_stop: Callable[[], bool],
) -> Answer | None:
    """Ask the network for all images; None when any rank was told to stop in between.

    Raises:
        FailedError: reading a batch took longer than the limit.
    """
    starts = list(range(0, asked.count, asked.batch))[world.rank :: world.world_size]
    network.model.eval()
    reading: dict[int, float] = {}
    pool = ThreadPoolExecutor(asked.threads)
    try:
        with _one_thread_each():
            lock = Lock()
            jobs = (pool.submit(_compute, network, asked, s, (lock, reading)) for s in starts)
            parts = list(_windowed(jobs, asked, reading, (on_progress, should_stop)))
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)  # a thread stuck in a read must not hold us
        raise
    pool.shutdown()
    complete = len(parts) == len(starts)
    if not all(row[0] for row in world.gather([float(complete)])):
        return None
    return _assemble(parts, asked, network.classes, world)


def my_share(count: int, batch: int, world: World) -> int:
    """How many of ``count`` images this rank will compute."""
    starts = range(0, count, batch)[world.rank :: world.world_size]
    return sum(min(batch, count - start) for start in starts)


def _windowed(
    jobs: Iterator[Future[_Part]],
    asked: Asked,
    reading: dict[int, float],
    calls: tuple[Callable[[int], None], Callable[[], bool]],
) -> Iterator[_Part]:
    """Results as they come, with only a few batches under way; ends early when told to."""
    on_progress, should_stop = calls
    running: set[Future[_Part]] = set()
    done = 0
    while True:
        while len(running) <= asked.threads and not should_stop():
            job = next(jobs, None)
            if job is None:
                break
            running.add(job)
        if not running:
            return
        ready, running = wait(running, timeout=_GLANCE, return_when=FIRST_COMPLETED)
        _refuse_stuck(reading, asked.limit)
        for job in ready:
            part = job.result()
            done += len(part.logits)
            on_progress(done)
            yield part


def _refuse_stuck(reading: dict[int, float], limit: float) -> None:
    """Only reading is limited: computing a batch may take long on a small processor."""
    now = time.monotonic()
    if any(now - since > limit for since in list(reading.values())):
        raise FailedError(
            f"waiting for data: a batch of images was not read in {limit:.0f} s",
            hint="check the disk or network share that holds the images (or raise data.wait_limit)",
        )


@contextmanager
def _one_thread_each() -> Generator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _compute(
    network: Network, asked: Asked, start: int, shared: tuple[Lock, dict[int, float]]
) -> _Part:
    lock, reading = shared
    stop = min(start + asked.batch, asked.count)
    images = np.zeros((stop - start, asked.size, asked.size, 3), dtype=np.uint8)
    bad: dict[int, str] = {}
    reading[start] = time.monotonic()
    for index in range(start, stop):
        try:
            images[index - start] = asked.read(index)
        except UndecodableError as error:
            bad[index] = error.reason
    del reading[start]
    with torch.inference_mode(), network.precision.autocast():
        if network.precision.device.type == "cuda":
            with lock:  # one batch at a time on the GPU; others are decoded meanwhile
                logits = _forward(network, images)
        else:
            logits = _forward(network, images)
    logits = logits.clone()  # a tensor of inference mode may not be changed outside of it
    for index in bad:
        logits[index - start] = torch.nan
    return _Part(start=start, logits=logits, bad=bad)


def _forward(network: Network, images: NDArray[np.uint8]) -> torch.Tensor:
    pixels = network.precision.pixels(torch.from_numpy(images), network.norm)
    return network.model(pixels).float().cpu()


def _assemble(parts: list[_Part], asked: Asked, classes: int, world: World) -> Answer:
    parts = sorted(parts, key=lambda p: p.start)
    indices = [torch.arange(p.start, p.start + len(p.logits)) for p in parts]
    empty = torch.empty(0, classes)
    logits = world.gather_rows(torch.cat([empty, *(p.logits for p in parts)]))
    places = world.gather_rows(torch.cat([torch.empty(0, dtype=torch.int64), *indices]))
    out = torch.empty(asked.count, classes)
    out[places] = logits
    return Answer(logits=out, bad=_all_bad(parts, world))


def _all_bad(parts: list[_Part], world: World) -> dict[int, str]:
    mine = "\n".join(f"{i} {reason}" for p in parts for i, reason in p.bad.items())
    lines = b"\n".join(world.gather_bytes(mine.encode("utf-8", "surrogateescape")))
    text = lines.decode("utf-8", "surrogateescape")
    pairs = (line.split(" ", 1) for line in text.split("\n") if line)
    return dict(sorted((int(i), reason) for i, reason in pairs))
