"""GradientSync: how gradients of one step become the same sum on every rank.

The gradient of a step is the sum over the global batch, not the mean of the ranks' means: the
loss is divided by the number of images in the slice, and gradients are *added*. So ranks may hold
different numbers of images, or none.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from shanty.comm.world import World


class GradientSync(Protocol):
    """One way of exchanging gradients. Later levels compress; this face stays."""

    @property
    def name(self) -> str:
        """The level's name, for the log."""
        ...

    @property
    def model(self) -> Callable[[torch.Tensor], torch.Tensor]:
        """What the step calls: the network, with its gradients exchanged on the way back."""
        ...

    def accumulate(self) -> AbstractContextManager[None]:
        """Context in which backward adds to the local gradients and sends nothing."""
        ...


class LocalSync:
    """One rank: nothing to exchange."""

    name = "none"

    def __init__(self, model: nn.Module) -> None:
        self.model = model

    def accumulate(self) -> AbstractContextManager[None]:
        """Nothing is ever sent."""
        return nullcontext()


class SumSync:
    """Level 0: fp32 all-reduce (sum), overlapped with backward by DDP's buckets."""

    name = "fp32"

    def __init__(
        self, model: nn.Module, world: World, *, bucket_mb: int, allow_unused: bool
    ) -> None:
        ids = [world.device.index] if world.device.type == "cuda" else None
        self.model = DistributedDataParallel(
            model,
            device_ids=ids,
            bucket_cap_mb=bucket_mb,
            gradient_as_bucket_view=True,
            find_unused_parameters=allow_unused,
            **_keep_buffers(),
        )
        self.model.register_comm_hook(None, _hook)

    def accumulate(self) -> AbstractContextManager[None]:
        """Gradients stay local until the next backward outside of it."""
        return self.model.no_sync()


# DDP refuses a hook whose annotations are strings, as all are in this file: so it has none.
# pyrefly: ignore[implicit-any-parameter]
def _hook(_state, bucket):  # noqa: ANN001, ANN202
    return _sum_over_ranks(bucket)


def _keep_buffers() -> dict[str, Any]:
    """BatchNorm buffers are averaged where they are read, not sent before every forward."""
    known = inspect.signature(DistributedDataParallel.__init__).parameters
    name = "forward_sync_buffers" if "forward_sync_buffers" in known else "broadcast_buffers"
    return {name: False}


def _sum_over_ranks(bucket: Any) -> torch.futures.Future[torch.Tensor]:
    work = dist.all_reduce(bucket.buffer(), async_op=True)
    return work.get_future().then(lambda done: done.value()[0])


def make_sync(
    model: nn.Module, world: World, *, bucket_mb: int, allow_unused: bool
) -> GradientSync:
    """The gradient exchange for this world."""
    if world.world_size == 1:
        return LocalSync(model)
    return SumSync(model, world, bucket_mb=bucket_mb, allow_unused=allow_unused)
