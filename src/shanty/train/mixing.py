"""mixup and cutmix: pairs of images in a micro-batch, and what their labels become."""

from __future__ import annotations

import random
from dataclasses import dataclass

import torch

from shanty.spec.config import AugmentConfig


@dataclass(frozen=True, kw_only=True)
class Mixed:
    """Images [n, 3, h, w] with two labels each: ``lam`` of the first, the rest of the second."""

    images: torch.Tensor
    first: torch.Tensor
    second: torch.Tensor
    lam: torch.Tensor


def mix_batch(
    images: torch.Tensor, labels: torch.Tensor, config: AugmentConfig, seeds: list[int]
) -> Mixed:
    """Mix each image with its mirror place in the micro-batch (first with last, ...).

    ``seeds`` holds one number per image: an image's part in the mixture depends on itself only.
    mixup: Zhang et al. 2018; cutmix: Yun et al. 2019; both on: one of them per image.
    """
    partner, second = images.flip(0), labels.flip(0)
    lam = torch.ones(len(seeds))
    out = images.clone()
    for place, seed in enumerate(seeds):
        rng = random.Random(seed)
        cut = config.cutmix > 0 and (config.mixup <= 0 or rng.random() < 0.5)
        alpha = config.cutmix if cut else config.mixup
        share = rng.betavariate(alpha, alpha)
        if cut:
            share = _paste(out[place], partner[place], share, rng)
        else:
            out[place].mul_(share).add_(partner[place], alpha=1 - share)
        lam[place] = share
    return Mixed(images=out, first=labels, second=second, lam=lam.to(images.device))


def _paste(target: torch.Tensor, source: torch.Tensor, share: float, rng: random.Random) -> float:
    """Paste a box of ``source`` over ``target``; returns the part of the target that is left."""
    height, width = target.shape[-2:]
    side = (1 - share) ** 0.5
    h, w = round(height * side), round(width * side)
    top, left = rng.randint(0, height - h), rng.randint(0, width - w)
    target[..., top : top + h, left : left + w] = source[..., top : top + h, left : left + w]
    return 1 - h * w / (height * width)
