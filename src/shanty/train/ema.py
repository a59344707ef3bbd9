"""Averaged weights: usually better than the last ones, and free of noise."""

from __future__ import annotations

import torch
from torch import nn

from shanty.train import buffers


class Ema:
    """Exponential moving average of parameters and float buffers.

    The decay grows with the step, min(decay, (1 + t) / (10 + t)) as in TensorFlow's
    ExponentialMovingAverage, so short runs are not dominated by the first weights. It depends on
    the step only: nothing but the averages needs saving.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self._live = dict(model.named_parameters()) | buffers.named(model)
        self.average = {n: t.detach().clone() for n, t in self._live.items()}
        self.buffer_names = tuple(buffers.named(model))

    @torch.no_grad()
    def update(self, step: int) -> None:
        """Move the averages after the commit of ``step`` (from 0)."""
        decay = min(self.decay, (1 + step) / (10 + step))
        averages, live = list(self.average.values()), list(self._live.values())
        torch._foreach_lerp_(averages, live, 1 - decay)

    def buffers(self) -> dict[str, torch.Tensor]:
        """The averaged buffers, which each rank has for itself."""
        return {n: self.average[n] for n in self.buffer_names}

    @torch.no_grad()
    def swap(self) -> None:
        """Exchange the live weights with the averages; a second call undoes it."""
        for name, live in self._live.items():
            held = live.detach().clone()
            live.copy_(self.average[name])
            self.average[name].copy_(held)
