"""Are all replicas still the same, to the bit? Eight bytes per parameter say so."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from shanty.comm.world import World
from shanty.errors import FailedError

_WORDS = {4: torch.int32, 2: torch.int16, 8: torch.int64, 1: torch.int8}


def checksum(tensor: torch.Tensor) -> int:
    """Sum of the tensor's bits read as integers: any single flipped bit changes it."""
    flat = tensor.detach().contiguous().reshape(-1)
    return int(flat.view(_WORDS[flat.element_size()]).sum(dtype=torch.int64))


def compare(world: World, named: Iterable[tuple[str, torch.Tensor]], step: int) -> None:
    """Compare tensors that must be equal on all ranks.

    Raises:
        FailedError: the first differing tensor, the ranks that differ from most others.
    """
    if world.world_size == 1:
        return
    items = list(named)
    mine = torch.tensor([checksum(t) for _, t in items], dtype=torch.int64)
    rows = world.gather_tensor(mine)
    for column, (name, _) in enumerate(items):
        values = [int(row[column]) for row in rows]
        if len(set(values)) > 1:
            raise _difference(name, values, step)


def _difference(name: str, values: list[int], step: int) -> FailedError:
    usual = max(set(values), key=values.count)
    odd = [rank for rank, value in enumerate(values) if value != usual]
    if values.count(usual) * 2 <= len(values):
        odd = list(range(len(values)))  # no majority: nobody can be called right
    ranks = "rank " + " and ".join(str(r) for r in odd)
    return FailedError(
        f"replicas differ after step {step}: {name} is not the same on {ranks}",
        hint="resume from the last checkpoint; if it comes back on one machine, test its memory",
    )
