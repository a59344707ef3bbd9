"""Feed: from the data set and a step number to this rank's images, the same at any world size."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice, pairwise

import numpy as np
import torch
from numpy.typing import NDArray

from shanty.comm.world import World
from shanty.data.loader import Ask, Batch, Loader
from shanty.data.order import mix, permutation
from shanty.data.views import EvalView, TrainView, read_eval, read_train
from shanty.scan.dataset import DataSet
from shanty.scan.names import as_path
from shanty.spec.config import RunConfig
from shanty.spec.slices import share_of, slice_of, split_micro, steps_per_epoch
from shanty.train.step import Order


@dataclass(frozen=True, kw_only=True)
class Threads:
    """Processor threads of this rank: for the network, for decoding, for evaluation batches."""

    compute: int
    decode: int
    evaluate: int


def pick_threads(world: World, asked: int | None, decode: int | None) -> Threads:
    """Cores divided by the ranks on this machine, unless told otherwise.

    Where an MPI launcher has bound this rank to cores of its own, those are not divided again.
    """
    cores = len(os.sched_getaffinity(0))
    bound = cores < (os.cpu_count() or 1) and world.place.launcher in ("mpirun", "mpiexec", "srun")
    own = cores if bound else max(1, cores // world.place.local_world_size)
    gpu = world.device.type == "cuda"
    return Threads(
        compute=asked or own, decode=decode or min(own, 8), evaluate=min(own, 8) if gpu else own
    )


class Feed:
    """The training images of one rank, step by step.

    Args:
        data: the data set.
        config: the run's config (batch, seed, augmentation, limits).
        world: which share of each slice is ours.
        decode_threads: threads that read ahead.
    """

    def __init__(
        self, data: DataSet, config: RunConfig, world: World, *, decode_threads: int
    ) -> None:
        self.data, self.config, self.world = data, config, world
        self.images = len(data.train)
        self.steps_per_epoch = steps_per_epoch(self.images, config.batch)
        self.total_steps = self.steps_per_epoch * config.epochs
        self._order_of = lru_cache(maxsize=2)(self._permutation)
        self._view = train_view(config)
        self._loader = Loader(
            self._read,
            size=config.data.size,
            threads=decode_threads,
            ahead=self._ahead(decode_threads),
            limit=config.data.wait_limit,
        )

    def labels(self) -> torch.Tensor:
        """Class index of every training image, int64 [N]."""
        return torch.tensor([s.label for s in self.data.train], dtype=torch.int64)

    def steps(self, first: int) -> Iterator[tuple[Order, Iterator[Batch]]]:
        """Orders from global step ``first`` to the last, with the micro-batches of each."""
        asks = (a for step in range(first, self.total_steps) for a in self.asks(step))
        stream = self._loader.batches(asks)
        for step in range(first, self.total_steps):
            order = self.order(step)
            yield order, islice(stream, order.micros)

    def order(self, step: int) -> Order:
        """What global step ``step`` is to do."""
        epoch, within = divmod(step, self.steps_per_epoch)
        start, stop = slice_of(self.images, self.config.batch, within)
        return Order(
            step=step, epoch=epoch, images=stop - start, micros=len(self._sizes((start, stop)))
        )

    def asks(self, step: int) -> list[Ask]:
        """This rank's micro-batches of a step; one empty one when it has no image."""
        epoch, within = divmod(step, self.steps_per_epoch)
        bounds = slice_of(self.images, self.config.batch, within)
        start, _ = share_of(bounds, self.world.rank, self.world.world_size)
        cuts = np.cumsum([0, *self._sizes(bounds)]) + start
        order = self._order_of(epoch)
        return [Ask(epoch=epoch, indices=order[a:b]) for a, b in pairwise(cuts)]

    def close(self) -> None:
        """End the reading threads."""
        self._loader.close()

    def path(self, index: int) -> str:
        """The image's path in the data set."""
        return self.data.train[index].path

    def _permutation(self, epoch: int) -> NDArray[np.int64]:
        return permutation(self.config.seed, epoch, self.images)

    def _sizes(self, bounds: tuple[int, int]) -> list[int]:
        start, stop = share_of(bounds, self.world.rank, self.world.world_size)
        if self.config.sync.sync_bn:  # all ranks must pass the same number of times
            share = -(-(bounds[1] - bounds[0]) // self.world.world_size)
            parts = max(1, len(split_micro(share, self.config.micro_batch)))
            return [len(p) for p in np.array_split(np.arange(stop - start), parts)]
        return split_micro(stop - start, self.config.micro_batch) or [0]

    def _read(self, epoch: int, index: int) -> NDArray[np.uint8]:
        rng = random.Random(mix(self.config.seed, 3, epoch, index))
        return read_train(as_path(f"{self.data.root}/{self.path(index)}"), self._view, rng)

    def _ahead(self, threads: int) -> int:
        share = -(-self.config.batch // self.world.world_size)
        micro = min(share, self.config.micro_batch or share)
        return max(2 * micro, micro + 2 * threads)


def train_view(config: RunConfig) -> TrainView:
    """How a training image is varied."""
    augment = config.augment
    return TrainView(
        size=config.data.size,
        min_area=float(augment.min_area or 1.0),
        hflip=augment.hflip,
        jitter=float(augment.jitter or 0.0),
        randaugment=augment.randaugment,
        magnitude=augment.magnitude,
    )


class EvalReader:
    """Reads images for validation and prediction by their number."""

    def __init__(self, root: str, paths: tuple[str, ...], view: EvalView) -> None:
        self.root, self.paths, self.view = root, paths, view

    def __call__(self, index: int) -> NDArray[np.uint8]:
        """Image ``index``: uint8 [size, size, 3]."""
        return read_eval(as_path(f"{self.root}/{self.paths[index]}"), self.view)
