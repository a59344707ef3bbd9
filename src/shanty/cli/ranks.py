"""How many ranks this machine should run. Pure: the GPUs were counted by a node task."""

from __future__ import annotations

import os
import re

from shanty import units
from shanty.errors import RefusedError, UsageError

MOST_RANKS = 64


def choose_ranks(asked: str, device: str, gpus: int) -> int:
    """Number of ranks for ``--nproc``: one per GPU, or one on a machine without.

    Raises:
        UsageError: ``asked`` is neither ``auto`` nor a whole number above zero.
        RefusedError: more ranks than GPUs, or a GPU is asked for and there is none.
    """
    if device == "cuda" and gpus == 0:
        raise RefusedError("device is cuda, but this machine has no GPU", hint="use device = cpu")
    on_gpu = device != "cpu" and gpus > 0
    if asked == "auto":
        return gpus if on_gpu else 1
    if not re.fullmatch(r"[1-9]\d{0,5}", asked):
        raise UsageError(f"--nproc {asked} is no number of ranks", hint="give auto, 1, 2, 3 ...")
    ranks = int(asked)
    if on_gpu and ranks > gpus:
        raise RefusedError(
            f"--nproc {ranks} is more than the {units.plural(gpus, 'GPU')} of this machine",
            hint=f"use --nproc {gpus}, or --set device=cpu",
        )
    if ranks > MOST_RANKS:
        raise RefusedError(
            f"--nproc {ranks} is more than {MOST_RANKS}, the most on one machine",
            hint=f"use --nproc {min(MOST_RANKS, os.cpu_count() or 1)}",
        )
    return ranks
