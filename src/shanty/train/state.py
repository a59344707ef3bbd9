"""The state of a training: where it is, what a checkpoint holds, how it is put back."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch import nn

from shanty.comm.world import World
from shanty.errors import RefusedError
from shanty.spec.codec import from_dict
from shanty.train import buffers
from shanty.train.checkpoint import Checkpoint, Tensors
from shanty.train.metrics import Metrics
from shanty.train.parts import Parts
from shanty.train.step import Outcome


@dataclass(frozen=True, kw_only=True)
class TrainState:
    """Position and counters; changes only at a commit, by making a new value.

    ``step`` counts steps taken (committed or skipped): with the steps of an epoch it gives the
    position in the data at any world size. ``validated`` is the number of epochs measured.
    """

    step: int = 0
    samples_seen: int = 0
    validated: int = 0
    skipped: int = 0
    skipped_in_row: int = 0
    epoch_loss: float = 0.0
    epoch_images: int = 0
    epoch_bad: int = 0
    best: Metrics | None = None
    best_epoch: int = -1

    def after(self, outcome: Outcome, asked: int) -> TrainState:
        """The state after a step over ``asked`` images."""
        excused = outcome.overflow or outcome.images == 0
        failed = 0 if outcome.committed or excused else 1
        images = outcome.images if outcome.committed else 0
        return replace(
            self,
            step=self.step + 1,
            samples_seen=self.samples_seen + asked,
            skipped=self.skipped + failed,
            skipped_in_row=self.skipped_in_row + 1 if failed else 0,
            epoch_loss=self.epoch_loss + (outcome.loss * images if images else 0.0),
            epoch_images=self.epoch_images + images,
            epoch_bad=self.epoch_bad + asked - outcome.images,
        )

    def next_epoch(self, metrics: Metrics | None, metric: str, epoch: int) -> TrainState:
        """The state after the end of ``epoch`` (from 0), with its metrics if it was measured."""
        state = replace(self, validated=epoch + 1, epoch_loss=0.0, epoch_images=0, epoch_bad=0)
        if metrics and metrics.better(self.best, metric):
            state = replace(state, best=metrics, best_epoch=epoch)
        return state


@torch.no_grad()
def collect(parts: Parts) -> dict[str, Tensors]:
    """The files of a checkpoint. Collective: every rank calls it; only a writer needs the result.

    ``model`` and ``ema`` hold the mean of the ranks' BatchNorm buffers; ``train`` holds the
    optimizer and, apart, what each rank has for itself.
    """
    model = _with_mean(parts.model, buffers.named(parts.model), parts.world)
    files = {"model.safetensors": model}
    own = list(buffers.named(parts.model).values())
    if parts.ema:
        mean = buffers.averaged(parts.ema.buffers(), parts.world)
        files["ema.safetensors"] = model | parts.ema.average | mean
        own += list(parts.ema.buffers().values())
    files["train.safetensors"] = _optimizer_tensors(parts) | _per_rank(own, parts.world)
    return files


def _with_mean(model: nn.Module, own: Tensors, world: World) -> Tensors:
    return dict(model.state_dict()) | buffers.averaged(own, world)


def _per_rank(own: list[torch.Tensor], world: World) -> Tensors:
    if not own:
        return {}
    flat = torch.cat([b.detach().reshape(-1).float().cpu() for b in own])
    return {f"rank{r}.buffers": part for r, part in enumerate(world.gather_tensor(flat))}


def _optimizer_tensors(parts: Parts) -> Tensors:
    names: dict[torch.Tensor, str] = {p: n for n, p in parts.model.named_parameters()}
    return {
        f"optim.{names[parameter]}.{key}": torch.as_tensor(value)
        for parameter, values in parts.optimizer.state.items()
        for key, value in values.items()
        if value is not None
    }


def describe(parts: Parts, state: TrainState) -> dict[str, Any]:
    """What ``state.json`` says of the training's position."""
    return {
        "state": asdict(state),
        "world_size": parts.world.world_size,
        "weights": "ema.safetensors" if parts.ema else "model.safetensors",
        "scaler": parts.scaler.state_dict(),
    }


@torch.no_grad()
def restore(parts: Parts, saved: Checkpoint) -> TrainState:
    """Put a checkpoint back into the parts, to the bit when the world size is the same.

    Raises:
        RefusedError: the checkpoint is of another model or optimizer.
    """
    _fill(parts.model.state_dict(), saved.tensors("model.safetensors"), saved)
    if parts.ema:
        _fill(parts.ema.average, saved.tensors("ema.safetensors"), saved)
    train = saved.tensors("train.safetensors")
    _restore_optimizer(parts, train)
    if saved.meta["world_size"] == parts.world.world_size:
        _restore_own(parts, train)
    if saved.meta["scaler"]:
        parts.scaler.load_state_dict(saved.meta["scaler"])
    return from_dict(TrainState, saved.meta["state"])


def _fill(slots: Tensors, values: Tensors, saved: Checkpoint) -> None:
    for name, slot in slots.items():
        if name not in values or values[name].shape != slot.shape:
            raise RefusedError(
                f"{saved.path} does not fit the model: {name} is missing or of another shape",
                hint="resume with the run's own folder and config",
            )
        slot.copy_(values[name])


def _restore_optimizer(parts: Parts, train: Tensors) -> None:
    for name, parameter in parts.model.named_parameters():
        prefix = f"optim.{name}."
        values = {k[len(prefix) :]: t for k, t in train.items() if k.startswith(prefix)}
        if values:
            parts.optimizer.state[parameter] = {
                k: _like(t, parameter, counter=k == "step") for k, t in values.items()
            }


def _like(value: torch.Tensor, parameter: nn.Parameter, *, counter: bool) -> torch.Tensor:
    """A state tensor on the parameter's device and in its memory layout.

    A fused optimizer, which is what a GPU has, wants its step counters on the device as well.
    """
    if counter or value.shape != parameter.shape:
        return value.to(parameter.device, copy=True)
    return torch.empty_like(parameter).copy_(value)


def _restore_own(parts: Parts, train: Tensors) -> None:
    own = list(buffers.named(parts.model).values())
    own += list(parts.ema.buffers().values()) if parts.ema else []
    if own:
        flat = train[f"rank{parts.world.rank}.buffers"]
        for slot, part in zip(own, flat.split([b.numel() for b in own]), strict=True):
            slot.copy_(part.reshape(slot.shape))
