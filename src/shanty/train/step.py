"""One step as a transaction: all of it is committed on all ranks, or all of it is rolled back."""

from __future__ import annotations

import math
from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it

from shanty.data.loader import Batch
from shanty.data.order import mix
from shanty.spec.schedule import rate_factor
from shanty.train import buffers
from shanty.train.clock import Clock
from shanty.train.mixing import mix_batch
from shanty.train.parts import Parts


@dataclass(frozen=True, kw_only=True)
class Order:
    """What step ``step`` is to do: its epoch, the size of its slice, this rank's micro-batches."""

    step: int
    epoch: int
    images: int
    micros: int


@dataclass(frozen=True, kw_only=True)
class Wishes:
    """What this rank would like to happen after the step; all ranks do what one wishes."""

    stop: bool = False
    save: bool = False


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What all ranks agreed on. ``loss`` is the mean over ``images`` good images.

    ``sick`` lists ranks whose loss was not finite; then, or with an infinite gradient, nothing
    was committed. ``overflow``: only fp16's scaled gradient was too large, which lowers the scale
    and is no fault.
    """

    committed: bool
    images: int
    loss: float
    lr: float
    sick: tuple[int, ...]
    stop: bool
    save: bool
    overflow: bool = False


@dataclass(kw_only=True)
class Tally:
    """What this rank has summed over its micro-batches of the current step."""

    losses: list[torch.Tensor] = field(default_factory=list)
    indices: list[torch.Tensor] = field(default_factory=list)
    good: int = 0
    loss: float = 0.0
    sick_indices: tuple[int, ...] = ()

    def close(self) -> None:
        """Read the losses from the device, once for the whole step."""
        if not self.losses:
            return
        values, indices = torch.cat(self.losses).cpu().double(), torch.cat(self.indices)
        finite = torch.isfinite(values)
        self.good, self.loss = len(values), float(values[finite].sum())
        self.sick_indices = tuple(indices[~finite].tolist())


class Stepper:
    """Runs steps on one rank's parts.

    Args:
        parts: the model and all that moves with it.
        labels: class index per training image, int64 [N], on the CPU.
        total_steps: steps of the whole training, for the schedule.
        warmup_steps: steps of warm-up.
    """

    def __init__(
        self, parts: Parts, labels: torch.Tensor, *, total_steps: int, warmup_steps: int
    ) -> None:
        self.parts, self.labels, self.clock = parts, labels, Clock()
        self.total_steps, self.warmup_steps = total_steps, warmup_steps
        self.last = Tally()
        # Frozen ones are in evaluation mode already, and stay there.
        self._norms = [m for m in buffers.batch_norms(parts.model) if m.training]
        self._snapshot = buffers.Snapshot(parts.model)
        self._fewest = 1 if parts.config.batch == 1 else 2
        if parts.config.sync.sync_bn:  # its exchange needs every rank, also one without images
            self._fewest = 0

    def run(self, order: Order, batches: Iterable[Batch], wishes: Wishes) -> Outcome:
        """Forward, backward and exchange over ``batches``; then commit, or roll back."""
        self._begin(order)
        tally = Tally()
        for place, batch in enumerate(batches):
            self.clock.add("data", batch.waited)
            final = place == order.micros - 1
            with nullcontext() if final else self.parts.sync.accumulate():
                self._micro(order, batch, tally)
        tally.close()
        self.last = tally
        with self.clock.span("wait"):
            table = self._agree(tally, wishes)
        with self.clock.span("optimizer"):
            return self._finish(order, table)

    def _begin(self, order: Order) -> None:
        # Dropout and its like draw from this; a function of the step, so nothing needs saving.
        parts = self.parts
        torch.manual_seed(mix(parts.config.seed, 1, order.step, parts.world.rank) >> 1)
        self._snapshot.take()

    def _micro(self, order: Order, batch: Batch, tally: Tally) -> None:
        """Forward and backward of one micro-batch, added to gradients and tally."""
        few = len(batch.indices) < self._fewest
        if few:  # no statistics of one image: BatchNorm uses what it has learned so far
            self._set_norms(training=False)
        with self.clock.span("forward"):
            losses = self._losses(order, batch)
        with self.clock.span("backward"):
            self.parts.scaler.scale(losses.sum() / order.images).backward()
        if few:
            self._set_norms(training=True)
        if len(batch.indices):
            tally.losses.append(losses.detach())
            tally.indices.append(batch.indices)

    def _losses(self, order: Order, batch: Batch) -> torch.Tensor:
        """Loss per image, float32 [n]; for an empty share one zero that reaches every weight."""
        parts, config = self.parts, self.parts.config
        if not len(batch.indices):
            size = config.data.size
            rows = 0 if config.sync.sync_bn else 1
            blank = torch.zeros(rows, 3, size, size, device=parts.world.device)
            with parts.precision.autocast():
                return parts.sync.model(blank).float().sum(1) * 0.0
        images = parts.precision.pixels(batch.images, parts.norm)
        labels = self.labels[batch.indices].to(images.device)
        smooth = float(config.optim.smoothing or 0.0)
        if not (config.augment.mixup or config.augment.cutmix):
            with parts.precision.autocast():
                out = parts.sync.model(images)
            return F.cross_entropy(out.float(), labels, reduction="none", label_smoothing=smooth)
        seeds = [mix(config.seed, 2, order.epoch, int(i)) for i in batch.indices]
        mixed = mix_batch(images, labels, config.augment, seeds)
        with parts.precision.autocast():
            out = parts.sync.model(mixed.images).float()
        first, second = (
            F.cross_entropy(out, target, reduction="none", label_smoothing=smooth)
            for target in (mixed.first, mixed.second)
        )
        return mixed.lam * first + (1 - mixed.lam) * second

    def _set_norms(self, *, training: bool) -> None:
        for module in self._norms:
            module.train(training)

    def _agree(self, tally: Tally, wishes: Wishes) -> list[list[float]]:
        sick = len(tally.sick_indices)
        row = [tally.good, tally.loss, sick, float(wishes.stop), float(wishes.save)]
        return self.parts.world.gather(row)

    def _finish(self, order: Order, table: list[list[float]]) -> Outcome:
        good = int(sum(row[0] for row in table))
        sick = tuple(rank for rank, row in enumerate(table) if row[2])
        lr = self._set_rate(order.step)
        norm = self._gradient_norm(order.images, good)
        finite = math.isfinite(norm)
        committed = good > 0 and not sick and finite
        scaler = self.parts.scaler
        searching = scaler.is_enabled() and scaler.get_scale() > 1.0
        if committed:
            self._commit(order)
        else:
            self._roll_back()
        return Outcome(
            committed=committed,
            images=good,
            loss=sum(row[1] for row in table) / max(1, good),
            lr=lr,
            sick=sick,
            stop=any(row[3] for row in table),
            save=any(row[4] for row in table),
            overflow=searching and good > 0 and not sick and not finite,
        )

    def _set_rate(self, step: int) -> float:
        config = self.parts.config
        factor = rate_factor(step, self.total_steps, self.warmup_steps, config.schedule.final_lr)
        lr = float(config.optim.lr or 0.0) * factor
        for group in self.parts.optimizer.param_groups:
            group["lr"] = lr * group["scale"]
        return lr

    def _gradient_norm(self, asked: int, good: int) -> float:
        """Norm of the gradient of the mean over the good images; clips. Equal on all ranks."""
        parts = self.parts
        parts.scaler.unscale_(parts.optimizer)
        if 0 < good < asked:
            for parameter in parts.trained:
                if parameter.grad is not None:
                    parameter.grad.mul_(asked / good)
        limit = parts.config.optim.clip or math.inf
        return float(torch.nn.utils.clip_grad_norm_(parts.trained, limit))

    def _commit(self, order: Order) -> None:
        parts = self.parts
        parts.scaler.step(parts.optimizer)
        parts.scaler.update()
        if parts.ema:
            parts.ema.update(order.step)
        parts.optimizer.zero_grad(set_to_none=parts.world.world_size == 1)

    def _roll_back(self) -> None:
        parts = self.parts
        self._snapshot.restore()
        parts.scaler.update()  # fp16: an overflow lowers the scale, also when nothing else moves
        parts.optimizer.zero_grad(set_to_none=parts.world.world_size == 1)
