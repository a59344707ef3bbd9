"""RunConfig: everything a person can choose about one training, with its reason beside it.

Each field carries its help text and limits; ``shanty config`` prints them, ``check`` enforces them.
``None`` means *auto*: spec.recipe decides, and the banner prints what it decided.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, Literal

from shanty.errors import UsageError


def option(default: Any, text: str, low: float | None = None, high: float | None = None) -> Any:
    """A dataclass field with its help text and inclusive limits."""
    return field(default=default, metadata={"help": text, "low": low, "high": high})


def section(kind: type) -> Any:
    """A dataclass field that holds a whole section of the config file."""
    return field(default_factory=kind, metadata={"help": (kind.__doc__ or "").strip()})


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """Which network is trained, and from which weights."""

    name: str = option("resnet18", "any timm model name")
    weights: str = option(
        "", "a .safetensors file with pretrained weights; empty: start from random weights"
    )
    partial: bool = option(
        False, "accept weights that fill only a part of the model (the head may always differ)"
    )
    freeze: Literal["none", "backbone"] = option(
        "none", "backbone: train only the classifier head; frozen weights stay bit-equal"
    )
    drop: float = option(0.0, "dropout before the classifier", 0, 0.95)
    drop_path: float = option(
        0.0, "stochastic depth rate (models that have it; others say so)", 0, 0.9
    )
    allow_unused: bool = option(
        False, "accept parameters that get no gradient (otherwise the run stops and names them)"
    )


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """Which images are read, and how."""

    size: int = option(224, "side of the square the network sees, in pixels", 8, 4096)
    labels: str = option(
        "", "a CSV file with a path and a label column; DATA is then the image root"
    )
    val_fraction: float = option(
        0.1, "part of every class held out when there is no validation set", 0.0, 0.9
    )
    crop: float = option(
        0.95, "validation and prediction: part of the short side that the centre crop keeps", 0.1, 1
    )
    bad: Literal["skip", "refuse"] = option(
        "skip", "an image that cannot be decoded: skip it and say so, or stop the run"
    )
    empty_class: Literal["refuse", "drop"] = option(
        "refuse", "a class folder without one usable image: refuse to start, or leave the class out"
    )
    threads: int | None = option(None, "decoding threads per process (auto: from the cores)", 1, 64)
    wait_limit: float = option(
        300.0, "seconds a step may wait for its images before the run stops and says so", 1
    )


@dataclass(frozen=True, kw_only=True)
class AugmentConfig:
    """How a training image is varied. Every image has its own random stream."""

    min_area: float | None = option(
        None, "smallest part of the picture that a random crop takes (1: no random crop)", 0.01, 1
    )
    hflip: float = option(0.5, "probability of a left-right flip", 0, 1)
    jitter: float | None = option(
        None, "strength of brightness, contrast and saturation changes", 0, 1
    )
    randaugment: int = option(0, "RandAugment: operations per image (0: off)", 0, 10)
    magnitude: float = option(9.0, "RandAugment: strength, 0 to 10", 0, 10)
    mixup: float = option(0.0, "mixup: alpha of its Beta distribution (0: off)", 0)
    cutmix: float = option(0.0, "cutmix: alpha of its Beta distribution (0: off)", 0)


@dataclass(frozen=True, kw_only=True)
class OptimConfig:
    """How a gradient becomes a step."""

    name: Literal["sgd", "adamw"] | None = option(None, "sgd (Nesterov) or adamw")
    lr: float | None = option(None, "peak learning rate; auto follows the global batch only", 0)
    head_lr_scale: float | None = option(None, "how much faster a new classifier head learns", 0)
    momentum: float = option(0.9, "sgd: momentum; adamw: beta1", 0, 0.9999)
    weight_decay: float | None = option(None, "weight decay (never on biases and norms)", 0)
    smoothing: float | None = option(None, "label smoothing", 0, 0.9)
    clip: float | None = option(
        None, "largest gradient norm; longer gradients are shortened to it (0: off)", 0
    )
    ema: float | None = option(
        None,
        "decay of the averaged weights, which are then validated and saved (0: off)",
        0,
        0.99999,
    )


@dataclass(frozen=True, kw_only=True)
class ScheduleConfig:
    """How the learning rate moves: linear warm-up, then half a cosine."""

    warmup: float | None = option(None, "epochs of warm-up", 0)
    final_lr: float = option(0.01, "last learning rate as a part of the peak", 0, 1)


@dataclass(frozen=True, kw_only=True)
class PrecisionConfig:
    """Number formats and memory layout. auto uses what the device gains from."""

    amp: Literal["auto", "off", "bf16", "fp16"] = option(
        "auto", "mixed precision; auto: bf16 or fp16 on a GPU that has it, off on a CPU"
    )
    channels_last: Literal["auto", "on", "off"] = option(
        "auto", "image layout in memory; auto: on with mixed precision on a GPU, and on CPU"
    )


@dataclass(frozen=True, kw_only=True)
class SyncConfig:
    """How ranks exchange gradients."""

    bucket_mb: int = option(25, "gradients are sent in pieces of this many MB", 1, 1000)
    sync_bn: bool = option(False, "BatchNorm statistics over all ranks (GPU only, slower)")
    timeout: float = option(600.0, "seconds a rank waits for the others before it gives up", 1)
    check_every: int = option(
        100, "steps between comparisons of the replicas (also after step 1)", 1
    )


@dataclass(frozen=True, kw_only=True)
class CheckpointConfig:
    """When the state is saved, and how much of it is kept."""

    keep: int = option(1, "newest checkpoints kept, besides the best", 1, 1000)
    minutes: float = option(10.0, "minutes between saves inside an epoch (0: only at its end)", 0)


@dataclass(frozen=True, kw_only=True)
class ValidateConfig:
    """How the result is measured."""

    batch: int = option(
        64, "images per validation batch; the result does not depend on the number of ranks", 1
    )
    every: int = option(1, "epochs between validations (always after the last)", 1)
    metric: Literal["accuracy", "log_loss", "macro_f1"] = option(
        "accuracy",
        "which number decides what the best checkpoint is; equals: the smaller log loss",
    )


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """One training run."""

    epochs: int = option(10, "times every image is seen", 1)
    batch: int = option(64, "GLOBAL batch: images per step over all ranks together", 1)
    micro_batch: int | None = option(
        None,
        "most images a device holds at once; larger shares are accumulated (auto: no limit)",
        1,
    )
    seed: int = option(
        0, "seed of the split, the order, the augmentation and the weights", 0, 2**63 - 1
    )
    device: Literal["auto", "cpu", "cuda"] = option("auto", "auto: the GPU where there is one")
    nan_limit: int = option(
        10, "steps in a row that may be skipped for a non-finite loss before the run stops", 0
    )
    model: ModelConfig = section(ModelConfig)
    data: DataConfig = section(DataConfig)
    augment: AugmentConfig = section(AugmentConfig)
    optim: OptimConfig = section(OptimConfig)
    schedule: ScheduleConfig = section(ScheduleConfig)
    precision: PrecisionConfig = section(PrecisionConfig)
    sync: SyncConfig = section(SyncConfig)
    checkpoint: CheckpointConfig = section(CheckpointConfig)
    validate: ValidateConfig = section(ValidateConfig)


def check(config: Any, prefix: str = "") -> None:
    """Raise UsageError for the first value outside its field's limits."""
    for item in fields(config):
        value = getattr(config, item.name)
        name = f"{prefix}{item.name}"
        if is_dataclass(value):
            check(value, f"{name}.")
            continue
        low, high = item.metadata.get("low"), item.metadata.get("high")
        if value is None or isinstance(value, str | bool):
            continue
        below, above = low is not None and value < low, high is not None and value > high
        endless = isinstance(value, float) and not math.isfinite(value)
        if endless or below or above:
            bounds = f"at least {low}" if high is None else f"between {low} and {high}"
            raise UsageError(f"{name} = {value} is out of range", hint=f"choose {bounds}")
