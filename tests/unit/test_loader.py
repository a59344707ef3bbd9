"""Loader: batches in order, equal for any number of threads, with bounded memory and patience."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import islice

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from shanty.data.decode import UndecodableError
from shanty.data.loader import Ask, Bad, Batch, Loader
from shanty.errors import FailedError

SIZE = 4
Pixels = NDArray[np.uint8]


def ask(*indices: int, epoch: int = 0) -> Ask:
    return Ask(epoch=epoch, indices=np.array(indices, dtype=np.int64))


def picture(epoch: int, index: int) -> Pixels:
    return np.full((SIZE, SIZE, 3), (index * 7 + epoch) % 256, dtype=np.uint8)


def dawdling(epoch: int, index: int) -> Pixels:
    """Later images are often ready before earlier ones."""
    time.sleep(random.Random(index).random() * 0.004)
    return picture(epoch, index)


def loader(
    read: Callable[[int, int], Pixels], *, threads: int = 4, ahead: int = 8, limit: float = 30
) -> Loader:
    return Loader(read, size=SIZE, threads=threads, ahead=ahead, limit=limit)


def read_all(made: Loader, asks: list[Ask]) -> list[Batch]:
    with closing(made):
        return list(made.batches(asks))


def test_a_batch_holds_the_asked_images_in_the_asked_order() -> None:
    first, second = read_all(loader(dawdling), [ask(5, 3, 9), ask(3, epoch=1)])
    assert first.images.shape == (3, SIZE, SIZE, 3)
    assert first.images.dtype == torch.uint8
    assert first.indices.dtype == torch.int64
    assert first.indices.tolist() == [5, 3, 9]
    assert first.images[:, 0, 0, 0].tolist() == [35, 21, 63]
    assert second.images.unique().tolist() == [22], "epoch 1 is read as epoch 1"
    assert first.bad == second.bad == ()


@pytest.mark.parametrize("threads", range(1, 9))
def test_the_bytes_are_equal_for_any_number_of_threads(threads: int) -> None:
    rng = random.Random(0)
    indices = [[rng.randrange(200) for _ in range(rng.randrange(9))] for _ in range(15)]
    batches = read_all(loader(dawdling, threads=threads), [ask(*i) for i in indices])
    assert [b.indices.tolist() for b in batches] == indices
    for batch, wanted in zip(batches, indices, strict=True):
        expected = [picture(0, i).tobytes() for i in wanted]
        assert batch.images.numpy().tobytes() == b"".join(expected)


def some_bad(epoch: int, index: int) -> Pixels:
    if index % 3 == 0:
        raise UndecodableError(f"{index}.png", f"reason {index}")
    return dawdling(epoch, index)


def test_bad_samples_are_left_out_and_named_and_nobody_takes_their_place() -> None:
    (batch,) = read_all(loader(some_bad), [ask(1, 3, 2, 6, 5)])
    assert batch.indices.tolist() == [1, 2, 5]
    assert batch.images[:, 0, 0, 0].tolist() == [7, 14, 35]
    assert batch.bad == (Bad(index=3, reason="reason 3"), Bad(index=6, reason="reason 6"))


def test_a_batch_of_only_bad_samples_is_empty_and_the_next_one_comes() -> None:
    first, second = read_all(loader(some_bad), [ask(0, 3), ask(1)])
    assert first.images.shape == (0, SIZE, SIZE, 3)
    assert first.indices.shape == (0,)
    assert len(first.bad) == 2
    assert second.indices.tolist() == [1]


def test_empty_asks_give_empty_batches_between_the_others() -> None:
    batches = read_all(loader(picture), [ask(), ask(4), ask(), ask(), ask(5, 6), ask()])
    assert [b.indices.tolist() for b in batches] == [[], [4], [], [], [5, 6], []]
    assert batches[0].images.shape == (0, SIZE, SIZE, 3)
    assert read_all(loader(picture), []) == []


class Counted:
    """Asks and reads, counted."""

    def __init__(self, *sizes: int) -> None:
        self.sizes = sizes
        self.asked = 0
        self.lock = threading.Lock()
        self.reads = self.now = self.most = 0

    def asks(self) -> Iterator[Ask]:
        for size in self.sizes:
            self.asked += size
            yield ask(*range(size))

    def read(self, epoch: int, index: int) -> Pixels:
        with self.lock:
            self.now += 1
            self.most = max(self.most, self.now)
        time.sleep(0.001)
        with self.lock:
            self.now -= 1
            self.reads += 1
        return picture(epoch, index)


@pytest.mark.parametrize(("size", "ahead"), [(4, 8), (4, 9), (1, 5), (10, 3), (7, 1)])
def test_no_more_images_are_read_ahead_than_the_bound(size: int, ahead: int) -> None:
    counted = Counted(*[size] * 12)
    with closing(loader(counted.read, ahead=ahead)) as made:
        taken = 0
        for batch in made.batches(counted.asks()):
            taken += len(batch.indices)
            assert counted.asked - taken <= ahead - 1 + size, "in memory beside this batch"
            assert counted.asked - taken >= min(ahead, 12 * size - taken), "and no fewer"
            time.sleep(0.003)
    assert taken == counted.reads == 12 * size


def test_an_endless_stream_of_empty_asks_is_not_read_ahead_for_ever() -> None:
    counted = Counted(*[0] * 10_000)
    pulled = 0

    def asks() -> Iterator[Ask]:
        nonlocal pulled
        for one in counted.asks():
            pulled += 1
            yield one

    with closing(loader(counted.read, ahead=8)) as made:
        next(made.batches(asks()))
    assert pulled <= 9


def test_threads_read_at_once_and_never_more_than_asked_for() -> None:
    counted = Counted(*[6] * 10)
    read_all(loader(counted.read, threads=3, ahead=30), list(counted.asks()))
    assert counted.most == 3


@pytest.fixture
def stuck() -> Iterator[Callable[[int, int], Pixels]]:
    """A read that hangs on image 13 until the test is over."""
    over = threading.Event()

    def read(epoch: int, index: int) -> Pixels:
        if index == 13:
            over.wait(60)
        return picture(epoch, index)

    yield read
    over.set()


def test_a_stuck_read_fails_within_its_limit_and_is_named(
    stuck: Callable[[int, int], Pixels],
) -> None:
    start = time.monotonic()
    with closing(loader(stuck, threads=2, limit=0.4)) as made:
        batches = made.batches([ask(1, 2), ask(12, 13, 14), ask(15)])
        assert next(batches).indices.tolist() == [1, 2]
        with pytest.raises(FailedError, match=r"image 13 did not arrive in 0 s") as caught:
            next(batches)
    assert 0.3 < time.monotonic() - start < 10
    assert "data.wait_limit" in caught.value.hint


def test_closing_does_not_wait_for_a_stuck_read(stuck: Callable[[int, int], Pixels]) -> None:
    made = loader(stuck, threads=1)
    batches = made.batches([ask(1), ask(13), ask(*range(20, 40))])
    next(batches)
    start = time.monotonic()
    batches.close()  # type: ignore[attr-defined] # it is a generator
    made.close()
    assert time.monotonic() - start < 5


def test_leaving_early_cancels_what_nobody_will_look_at() -> None:
    counted = Counted(*[4] * 50)
    with closing(loader(counted.read, threads=1, ahead=200)) as made:
        batches = made.batches(counted.asks())
        assert len(list(islice(batches, 2))) == 2
        batches.close()  # type: ignore[attr-defined] # it is a generator
        so_far = counted.reads
        time.sleep(0.1)
        assert counted.reads - so_far <= 2, "one may have been under way"


def test_our_own_bugs_are_not_taken_for_bad_images() -> None:
    def broken(_epoch: int, _index: int) -> Pixels:
        raise ZeroDivisionError("a bug")

    with closing(loader(broken)) as made, pytest.raises(ZeroDivisionError):
        next(made.batches([ask(1)]))


def test_the_time_the_caller_stood_still_is_told() -> None:
    def slow(epoch: int, index: int) -> Pixels:
        time.sleep(0.1)
        return picture(epoch, index)

    with closing(loader(slow, threads=1, ahead=2)) as made:
        first, second = made.batches([ask(0), ask(1)])
    assert first.waited >= 0.09
    with closing(loader(slow, threads=1, ahead=2)) as made:
        batches = made.batches([ask(0), ask(1)])
        next(batches)
        time.sleep(0.5)
        second = next(batches)
    assert second.waited < 0.09, "it was ready before it was asked for"
