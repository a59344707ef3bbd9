"""From a config to the model and its optimizer."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import timm
import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from shanty.errors import UsageError
from shanty.spec.codec import nearest
from shanty.spec.config import ModelConfig, RunConfig
from shanty.train.weights import (
    head_names,
    is_head,
    load_weights,
    pretrained_facts,
    read_weights,
)


@dataclass(frozen=True, kw_only=True)
class Norm:
    """Mean and standard deviation of the pixels, per channel, for values in 0..1."""

    mean: tuple[float, float, float]
    std: tuple[float, float, float]


def build_model(
    config: ModelConfig, classes: int, seed: int, size: int, *, with_weights: bool = True
) -> nn.Module:
    """A timm model with ``classes`` outputs; equal on all ranks for an equal seed.

    Without ``with_weights`` the file is not read: a checkpoint will be loaded instead.

    Raises:
        UsageError: no model of that name (the nearest names are given).
        RefusedError: the weights file does not fit.
    """
    model = create(config, classes, seed, size)
    if config.weights and with_weights:
        path = Path(config.weights)
        tensors = read_weights(path)
        if load_weights(model, tensors, source=path.name, partial=config.partial):
            _zero_head(model)
    if config.freeze == "backbone":
        _freeze(model, config.name)
    return model


def create(config: ModelConfig, classes: int, seed: int, size: int) -> nn.Module:
    """The bare timm model for images of ``size`` pixels, with weights drawn from ``seed``."""
    name = config.name.split(".")[0]
    if not timm.is_model(name):
        raise UsageError(
            f"timm {timm.__version__} has no model named {config.name!r}",
            hint=nearest(name, timm.list_models()),
        )
    options: dict[str, Any] = {}
    if config.drop:
        options["drop_rate"] = config.drop
    if config.drop_path:
        options["drop_path_rate"] = config.drop_path
    facts = timm.get_pretrained_cfg(config.name)
    if facts is not None and facts.fixed_input_size:  # transformers are built for one size
        options["img_size"] = size
    torch.manual_seed(seed)
    try:
        return timm.create_model(config.name, pretrained=False, num_classes=classes, **options)
    except TypeError as error:
        raise UsageError(
            f"{config.name} does not take {sorted(options)}: {error}",
            hint="leave model.drop and model.drop_path at 0 for this model",
        ) from error


def norm_of(model: nn.Module) -> Norm:
    """The pixel statistics that the model's pretrained weights expect."""
    facts = pretrained_facts(model)
    mean = facts.get("mean") or (0.485, 0.456, 0.406)
    std = facts.get("std") or (0.229, 0.224, 0.225)
    return Norm(mean=(mean[0], mean[1], mean[2]), std=(std[0], std[1], std[2]))


@torch.no_grad()
def _zero_head(model: nn.Module) -> None:
    """Start a new classifier from zero.

    A random one sends large random gradients through the pretrained layers in the first steps;
    from zero they feel nothing until the head knows something (docs/recipes.md has the numbers).
    """
    heads = head_names(model)
    for name, parameter in model.named_parameters():
        if is_head(name, heads):
            parameter.zero_()


def _freeze(model: nn.Module, name: str) -> None:
    heads = head_names(model)
    trained = [n for n, _ in model.named_parameters() if is_head(n, heads)]
    if not trained:
        raise UsageError(
            f"{name} has no classifier head that timm names", hint="use model.freeze = 'none'"
        )
    for key, parameter in model.named_parameters():
        parameter.requires_grad_(is_head(key, heads))


def set_training(model: nn.Module) -> None:
    """Training mode; frozen modules stay in evaluation mode, so that their buffers stay equal."""
    model.train()
    frozen = not all(p.requires_grad for p in model.parameters())
    for module in model.modules():
        own = list(module.parameters(recurse=False))
        bare_norm = frozen and isinstance(module, _BatchNorm) and not own
        if bare_norm or (own and not any(p.requires_grad for p in own)):
            module.eval()


def build_optimizer(model: nn.Module, config: RunConfig) -> torch.optim.Optimizer:
    """SGD (Nesterov) or AdamW over the trained parameters.

    Groups carry ``scale``, their factor on the learning rate. Biases and norms do not decay
    (He et al. 2019, Bag of Tricks).
    """
    optim = config.optim
    heads = head_names(model) if config.model.weights else ()
    groups: dict[tuple[bool, bool], list[nn.Parameter]] = {}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            key = (is_head(name, heads), parameter.ndim > 1)
            groups.setdefault(key, []).append(parameter)
    settings: list[dict[str, Any]] = [
        {
            "params": groups[key],
            "weight_decay": optim.weight_decay if key[1] else 0.0,
            "scale": optim.head_lr_scale if key[0] else 1.0,
        }
        for key in sorted(groups)
    ]
    try:  # one kernel for all of it: several times faster on a CPU, too
        return _optimizer(config, settings, fused=True)
    except RuntimeError:  # a device or an older torch without it
        return _optimizer(config, settings, fused=False)


def _optimizer(
    config: RunConfig, settings: list[dict[str, Any]], *, fused: bool
) -> torch.optim.Optimizer:
    optim, lr = config.optim, float(config.optim.lr or 0.0)
    if optim.name == "sgd":
        nesterov = optim.momentum > 0
        return torch.optim.SGD(
            settings, lr=lr, momentum=optim.momentum, nesterov=nesterov, fused=fused
        )
    return torch.optim.AdamW(settings, lr=lr, betas=(optim.momentum, 0.999), fused=fused)
