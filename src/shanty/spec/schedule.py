"""The learning rate of a step: a pure function of the step, so that it needs no saved state."""

from __future__ import annotations

import math


def rate_factor(step: int, total: int, warmup: int, final: float) -> float:
    """Factor on the peak learning rate at ``step`` (from 0) of ``total`` steps.

    Linear from 1/(warmup+1) upwards over ``warmup`` steps, then half a cosine down to ``final``
    (Loshchilov & Hutter 2017, SGDR, without restarts).
    """
    if step < warmup:
        return (step + 1) / (warmup + 1)
    span = max(1, total - warmup - 1)
    part = min(1.0, (step - warmup) / span)
    return final + (1 - final) * 0.5 * (1 + math.cos(math.pi * part))
