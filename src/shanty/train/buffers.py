"""BatchNorm's buffers: each rank has its own; what is validated and saved is their mean."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from shanty.comm.world import World


def named(model: nn.Module) -> dict[str, torch.Tensor]:
    """The model's floating-point buffers that training moves, by name."""
    saved = model.state_dict().keys()
    return {n: b for n, b in model.named_buffers() if n in saved and b.is_floating_point()}


def averaged(buffers: dict[str, torch.Tensor], world: World) -> dict[str, torch.Tensor]:
    """Mean over ranks, summed in rank order in float64: equal to the bit on all ranks. CPU."""
    if not buffers:
        return {}
    flat = torch.cat([b.detach().reshape(-1).float().cpu() for b in buffers.values()])
    if world.world_size > 1:
        rows = world.gather_tensor(flat)
        flat = (torch.stack(rows).double().sum(0) / len(rows)).float()
    parts = flat.split([b.numel() for b in buffers.values()])
    return {
        n: p.reshape(b.shape).to(b.dtype) for (n, b), p in zip(buffers.items(), parts, strict=True)
    }


@torch.no_grad()
def assign(buffers: dict[str, torch.Tensor], values: dict[str, torch.Tensor]) -> None:
    """Copy ``values`` into ``buffers``, name by name."""
    for name, value in values.items():
        buffers[name].copy_(value)


class Snapshot:
    """A copy of all buffers, to roll a failed step back."""

    def __init__(self, model: nn.Module) -> None:
        self._live = list(model.buffers())
        self._copy = [b.detach().clone() for b in self._live]

    @torch.no_grad()
    def take(self) -> None:
        """Remember the buffers as they are now."""
        for copy, live in zip(self._copy, self._live, strict=True):
            copy.copy_(live)

    @torch.no_grad()
    def restore(self) -> None:
        """Put back what was remembered."""
        for copy, live in zip(self._copy, self._live, strict=True):
            live.copy_(copy)


def batch_norms(model: nn.Module) -> list[nn.Module]:
    """Modules that compute statistics over a batch."""
    return [m for m in model.modules() if isinstance(m, _BatchNorm)]
