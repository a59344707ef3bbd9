"""The recipe: what *auto* means. Two sets of defaults, chosen by whether weights are given."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

from shanty.spec.config import RunConfig


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """One set of defaults.

    The learning rates are for a global batch of 64 and grow with its square root; ``warmup`` is a
    part of all epochs; decay and rate differ between the two optimizers.
    """

    name: str
    lr: float
    sgd_lr: float
    weight_decay: float
    sgd_decay: float
    ema: float
    min_area: float
    optim: Literal["sgd", "adamw"] = "adamw"
    head_lr_scale: float = 1.0
    smoothing: float = 0.05
    clip: float = 5.0
    warmup: float = 0.1
    jitter: float = 0.0


# How these were found is in docs/recipes.md, with the numbers.
FINETUNE = Recipe(
    name="fine-tune",
    lr=5e-4,
    sgd_lr=0.05,
    weight_decay=0.05,
    sgd_decay=1e-4,
    ema=0.9998,
    min_area=0.35,
)
SCRATCH = Recipe(
    name="from scratch",
    lr=3e-3,
    sgd_lr=0.05,
    weight_decay=0.05,
    sgd_decay=5e-4,
    ema=0.0,
    min_area=0.6,
)


def recipe_for(config: RunConfig) -> Recipe:
    """Fine-tuning when there are weights to start from, else from scratch."""
    return FINETUNE if config.model.weights else SCRATCH


def resolve(config: RunConfig) -> RunConfig:
    """The same config with every *auto* of the recipe replaced by its number."""
    recipe = recipe_for(config)
    optim = config.optim
    name = optim.name or recipe.optim
    sgd = name == "sgd"
    base = recipe.sgd_lr if sgd else recipe.lr
    lr = base * math.sqrt(config.batch / 64) if optim.lr is None else optim.lr
    warmup = recipe.warmup * config.epochs
    return replace(
        config,
        optim=replace(
            optim,
            name=name,
            lr=lr,
            head_lr_scale=_or(optim.head_lr_scale, recipe.head_lr_scale),
            weight_decay=_or(optim.weight_decay, recipe.sgd_decay if sgd else recipe.weight_decay),
            smoothing=_or(optim.smoothing, recipe.smoothing),
            clip=_or(optim.clip, recipe.clip),
            ema=_or(optim.ema, recipe.ema),
        ),
        schedule=replace(config.schedule, warmup=_or(config.schedule.warmup, warmup)),
        augment=replace(
            config.augment,
            min_area=_or(config.augment.min_area, recipe.min_area),
            jitter=_or(config.augment.jitter, recipe.jitter),
        ),
    )


def _or(value: float | None, default: float) -> float:
    return default if value is None else value


def lr_rule(config: RunConfig) -> str:
    """One phrase that says where the learning rate comes from."""
    if config.optim.lr is not None:
        return "as given"
    recipe = recipe_for(config)
    base = recipe.sgd_lr if (config.optim.name or recipe.optim) == "sgd" else recipe.lr
    return f"{base:g} x sqrt(batch / 64)"
