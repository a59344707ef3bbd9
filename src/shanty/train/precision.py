"""Number formats, written once: autocast, loss scaling, memory layout, normalisation."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cache

import torch
from torch import nn

from shanty.spec.config import PrecisionConfig
from shanty.train.build import Norm


@dataclass(frozen=True, kw_only=True)
class Precision:
    """What this device computes in. ``amp``: off, bf16 or fp16."""

    device: torch.device
    amp: str
    channels_last: bool

    def autocast(self) -> AbstractContextManager[object]:
        """Context for forward and loss."""
        if self.amp == "off":
            return nullcontext()
        kind = torch.bfloat16 if self.amp == "bf16" else torch.float16
        return torch.autocast(self.device.type, dtype=kind)

    def scaler(self) -> torch.amp.GradScaler:
        """Loss scaling, which only fp16 needs."""
        return torch.amp.GradScaler(self.device.type, enabled=self.amp == "fp16")

    def place(self, model: nn.Module) -> nn.Module:
        """The model on the device, in the chosen layout."""
        layout = torch.channels_last if self.channels_last else torch.contiguous_format
        return model.to(self.device).to(memory_format=layout)

    def pixels(self, images: torch.Tensor, norm: Norm) -> torch.Tensor:
        """uint8 [n, h, w, 3] to normalised float32 [n, 3, h, w] on the device."""
        moved = images.to(self.device, non_blocking=True).permute(0, 3, 1, 2)
        mean, std = _constants(norm, self.device)
        values = moved.float().sub_(mean).div_(std)  # the permuted bytes are channels_last already
        return values if self.channels_last else values.contiguous()


@cache
def _constants(norm: Norm, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean and deviation in the scale of bytes, on the device: sent there once, not every step."""
    mean, std = (torch.tensor(v).view(1, 3, 1, 1) * 255 for v in (norm.mean, norm.std))
    return mean.to(device), std.to(device)


def pick_precision(config: PrecisionConfig, device: torch.device) -> Precision:
    """Resolve *auto* for the device: bf16 from Ampere on, fp16 before, nothing on a CPU."""
    amp = config.amp
    if amp == "auto":
        amp = "off"
        if device.type == "cuda":
            modern = torch.cuda.get_device_capability(device) >= (8, 0)
            amp = "bf16" if modern else "fp16"
    layout = config.channels_last
    last = layout == "on" or (layout == "auto" and (amp != "off" or device.type == "cpu"))
    return Precision(device=device, amp=amp, channels_last=last)
