"""Batches of uint8 images, decoded ahead by threads; the same bytes for any number of threads.

Pillow lets go of Python's lock while it decodes and resizes, so threads share the work without
copies between processes. Floats never pass through here: the device normalises.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as WaitTimeout
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from shanty.data.decode import UndecodableError
from shanty.errors import FailedError

Read = Callable[[int, int], NDArray[np.uint8]]
Jobs = list[Future[NDArray[np.uint8]]]


@dataclass(frozen=True, kw_only=True)
class Ask:
    """One micro-batch to read: sample indices, shape [n], as they appear in ``epoch``."""

    epoch: int
    indices: NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Bad:
    """A sample that could not be decoded."""

    index: int
    reason: str


@dataclass(frozen=True, kw_only=True)
class Batch:
    """``images``: uint8 [n, size, size, 3]; ``indices``: int64 [n]; the unusable are in ``bad``.

    ``waited`` is how long the caller stood still for it, in seconds.
    """

    images: torch.Tensor
    indices: torch.Tensor
    bad: tuple[Bad, ...]
    waited: float


class Loader:
    """Reads asked batches in order, some images ahead.

    Args:
        read: (epoch, index) to a uint8 array [size, size, 3]; raises UndecodableError.
        size: side of the images.
        threads: decoding threads.
        ahead: no further ask is begun while this many images are decoded or waiting, which
            bounds the memory: there are never more than ``ahead`` - 1 and one ask's.
        limit: seconds one image may take.
    """

    def __init__(self, read: Read, *, size: int, threads: int, ahead: int, limit: float) -> None:
        self._read, self._size, self._ahead, self._limit = read, size, ahead, limit
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="decode")

    def batches(self, asks: Iterable[Ask]) -> Iterator[Batch]:
        """One Batch per Ask, in order.

        Raises:
            FailedError: an image took longer than the limit.
        """
        source = iter(asks)
        waiting: deque[tuple[Ask, Jobs]] = deque()
        held = self._fill(source, waiting, 0)
        try:
            while waiting:
                ask, futures = waiting.popleft()
                batch = self._collect(ask, futures)
                held = self._fill(source, waiting, held - max(1, len(futures)))
                yield batch
        finally:
            for _, futures in waiting:
                for future in futures:
                    future.cancel()

    def close(self) -> None:
        """End the threads without waiting for a stuck one."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _fill(self, source: Iterator[Ask], waiting: deque[tuple[Ask, Jobs]], held: int) -> int:
        while held < self._ahead or not waiting:
            ask = next(source, None)
            if ask is None:
                break
            jobs = [self._pool.submit(self._read, ask.epoch, int(i)) for i in ask.indices]
            waiting.append((ask, jobs))
            held += max(1, len(jobs))  # an empty share must not be asked for without end
        return held

    def _collect(self, ask: Ask, futures: Jobs) -> Batch:
        start = time.monotonic()
        images = np.empty((len(futures), self._size, self._size, 3), dtype=np.uint8)
        good: list[int] = []
        bad: list[Bad] = []
        for index, future in zip(ask.indices, futures, strict=True):
            try:
                images[len(good)] = self._wait(int(index), future)
                good.append(int(index))
            except UndecodableError as error:
                bad.append(Bad(index=int(index), reason=error.reason))
        return Batch(
            images=torch.from_numpy(images[: len(good)]),
            indices=torch.tensor(good, dtype=torch.int64),
            bad=tuple(bad),
            waited=time.monotonic() - start,
        )

    def _wait(self, index: int, future: Future[NDArray[np.uint8]]) -> NDArray[np.uint8]:
        try:
            return future.result(timeout=self._limit)
        except WaitTimeout:
            raise FailedError(
                f"waiting for data: image {index} did not arrive in {self._limit:.0f} s",
                hint="check the disk or network share that holds the images"
                " (or raise data.wait_limit)",
            ) from None
