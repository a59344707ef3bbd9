"""Weights from a file: safetensors only, names cleaned, every key accounted for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import nn

from shanty.errors import RefusedError, UsageError

_PREFIXES = ("module.", "_orig_mod.")


def read_weights(path: Path) -> dict[str, torch.Tensor]:
    """Tensors of a safetensors file, without the prefixes that DDP and torch.compile leave.

    Raises:
        UsageError: no such file, or a format that can carry code (.pt, .pth, .bin).
        RefusedError: the file is broken.
    """
    if not path.is_file():
        raise UsageError(f"no weights file at {path}", hint="check --weights")
    try:
        tensors = load_file(str(path), device="cpu")
    except SafetensorError as error:
        if path.suffix in (".pt", ".pth", ".bin", ".ckpt"):
            raise UsageError(
                f"{path.name} is a pickle file, which can run code when it is read",
                hint="convert it where you trust it: safetensors.torch.save_file(state_dict, ...)",
            ) from error
        raise RefusedError(
            f"{path} is no whole safetensors file: {error}", hint="copy or download it again"
        ) from error
    return {clean(name): tensor for name, tensor in tensors.items()}


def clean(name: str) -> str:
    """The parameter's name in the plain model."""
    while name.startswith(_PREFIXES):
        name = name.split(".", 1)[1]
    return name


def head_names(model: nn.Module) -> tuple[str, ...]:
    """Name prefixes of the classifier, as timm records them."""
    names = pretrained_facts(model).get("classifier") or ()
    return (names,) if isinstance(names, str) else tuple(names)


def pretrained_facts(model: nn.Module) -> dict[str, Any]:
    """What timm records about the model's pretrained weights: classifier, mean, std."""
    facts = getattr(model, "pretrained_cfg", None)
    return facts if isinstance(facts, dict) else dict(vars(facts)) if facts else {}


def is_head(name: str, heads: tuple[str, ...]) -> bool:
    """True for a parameter of the classifier."""
    return any(name == head or name.startswith(head + ".") for head in heads)


def load_weights(
    model: nn.Module, tensors: dict[str, torch.Tensor], *, source: str, partial: bool
) -> bool:
    """Copy ``tensors`` into the model; True when the head was left new (other class count).

    Raises:
        RefusedError: keys are missing, unknown or of another shape (the head's shape may differ),
            and ``partial`` is not set. Five of them are named.
    """
    heads = head_names(model)
    target = model.state_dict()
    new_head = any(
        is_head(n, heads) and n in tensors and tensors[n].shape != t.shape
        for n, t in target.items()
    )
    if new_head:
        tensors = {n: t for n, t in tensors.items() if not is_head(n, heads)}
    problems = [
        *(
            f"missing {n}"
            for n in target
            if n not in tensors and _needed(n, heads, new_head=new_head)
        ),
        *(f"unknown {n}" for n in tensors if n not in target),
        *(
            f"{n} has shape {tuple(t.shape)}, the model's is {tuple(target[n].shape)}"
            for n, t in tensors.items()
            if n in target and t.shape != target[n].shape
        ),
    ]
    if problems and not partial:
        fits = sum(1 for n, t in target.items() if n in tensors and tensors[n].shape == t.shape)
        raise RefusedError(
            f"{source} fits {fits} of the model's {len(target)} tensors: "
            + "; ".join(problems[:5])
            + (f"; and {len(problems) - 5} more" if len(problems) > 5 else ""),
            hint="check --model, or accept it with --set model.partial=true",
        )
    _copy(model, tensors)
    return new_head


def _needed(name: str, heads: tuple[str, ...], *, new_head: bool) -> bool:
    # Older files lack BatchNorm's step counter, which only matters without momentum.
    if name.endswith("num_batches_tracked"):
        return False
    return not (new_head and is_head(name, heads))


@torch.no_grad()
def _copy(model: nn.Module, tensors: dict[str, torch.Tensor]) -> None:
    for name, slot in model.state_dict().items():
        if name in tensors and tensors[name].shape == slot.shape:
            slot.copy_(tensors[name])
