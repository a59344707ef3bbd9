"""A trained run's folder to a network that can be asked: no data, no internet needed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

from shanty.data.decode import check_rules
from shanty.errors import RefusedError
from shanty.record.rundir import RunDir
from shanty.spec.codec import from_dict
from shanty.spec.config import RunConfig
from shanty.train import checkpoint
from shanty.train.build import Norm, create
from shanty.train.infer import Network
from shanty.train.precision import Precision
from shanty.train.weights import load_weights


@dataclass(frozen=True, kw_only=True)
class Trained:
    """A run ready to be asked: ``prior`` is the share of each class in its training images."""

    network: Network
    config: RunConfig
    classes: tuple[str, ...]
    prior: tuple[float, ...]
    name: str
    notes: tuple[str, ...]


def load_run(folder: Path, which: str, device: torch.device) -> Trained:
    """Load the announced weights of the ``best`` or ``last`` checkpoint.

    Raises:
        RefusedError: no such checkpoint, a broken one, or one made with other image rules.
    """
    saved = checkpoint.named(RunDir(folder), which)
    meta = saved.meta
    classes = tuple(meta.get("classes") or ())
    if not classes:
        raise RefusedError(
            f"{saved.path} holds no class names", hint="use a checkpoint that shanty train wrote"
        )
    config = from_dict(RunConfig, meta["config"])
    model = create(config.model, len(classes), config.seed, config.data.size)
    file = meta["weights"]
    load_weights(model, saved.tensors(file), source=f"{saved.path.name}/{file}", partial=False)
    amp = meta["amp"] if device.type == meta["device"] else "off"
    precision = Precision(device=device, amp=amp, channels_last=meta["channels_last"])
    network = Network(
        model=precision.place(model).eval(),
        norm=_norm(meta["norm"]),
        precision=precision,
        classes=len(classes),
    )
    return Trained(
        network=network,
        config=config,
        classes=classes,
        prior=tuple(meta["prior"]),
        name=f"{folder.name} ({which}: {saved.path.name}, {file})",
        notes=check_rules(meta["images"], folder.name),
    )


def _norm(data: dict[str, list[float]]) -> Norm:
    mean, std = data["mean"], data["std"]
    return Norm(mean=(mean[0], mean[1], mean[2]), std=(std[0], std[1], std[2]))
