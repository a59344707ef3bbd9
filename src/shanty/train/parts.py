"""Parts: everything that one step of a training touches, put together once."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from shanty.comm.sync import GradientSync, make_sync
from shanty.comm.world import World, is_lost_peer, is_out_of_memory
from shanty.errors import FailedError, RefusedError
from shanty.spec.config import RunConfig
from shanty.train import buffers
from shanty.train.build import Norm, build_model, build_optimizer, norm_of, set_training
from shanty.train.ema import Ema
from shanty.train.precision import Precision, pick_precision


@dataclass(frozen=True, kw_only=True)
class Parts:
    """The live objects of one rank. ``model`` is the bare network; ``sync.model`` is called."""

    config: RunConfig
    world: World
    model: nn.Module
    sync: GradientSync
    optimizer: torch.optim.Optimizer
    scaler: torch.amp.GradScaler
    ema: Ema | None
    norm: Norm
    precision: Precision
    classes: int

    def set_training(self) -> None:
        """Training mode, except for what is frozen."""
        set_training(self.model)

    @property
    def trained(self) -> list[nn.Parameter]:
        """Parameters that get gradients."""
        return [p for p in self.model.parameters() if p.requires_grad]


def assemble(config: RunConfig, classes: int, world: World, *, resume: bool = False) -> Parts:
    """Build everything and run one backward that is thrown away.

    That backward shows that the model runs at this size at all, names parameters without a
    gradient, and makes DDP arrange its buckets as they stay: without it a resumed run would add
    its first gradients in another order than the uninterrupted one.

    Raises:
        UsageError, RefusedError: the model cannot be built or cannot run with these settings.
        FailedError: parameters without a gradient.
    """
    precision = pick_precision(config.precision, world.device)
    model = build_model(
        config.model, classes, config.seed, config.data.size, with_weights=not resume
    )
    norm = norm_of(model)
    model = precision.place(_with_sync_bn(model, config, world))
    set_training(model)
    snapshot = buffers.Snapshot(model)
    sync = make_sync(
        model,
        world,
        bucket_mb=config.sync.bucket_mb,
        allow_unused=config.model.allow_unused,
    )
    _throw_away(model, sync.model, config, precision, world)
    _refuse_unused(model, allowed=config.model.allow_unused)
    model.zero_grad(set_to_none=world.world_size == 1)
    snapshot.restore()
    return Parts(
        config=config,
        world=world,
        model=model,
        sync=sync,
        optimizer=build_optimizer(model, config),
        scaler=precision.scaler(),
        ema=Ema(model, config.optim.ema) if config.optim.ema else None,
        norm=norm,
        precision=precision,
        classes=classes,
    )


def _with_sync_bn(model: nn.Module, config: RunConfig, world: World) -> nn.Module:
    if not config.sync.sync_bn or world.world_size == 1:
        return model
    if world.device.type != "cuda":
        raise RefusedError(
            "SyncBatchNorm works on GPUs only",
            hint="leave sync.sync_bn off, or give each rank a larger share with a larger --batch",
        )
    return nn.SyncBatchNorm.convert_sync_batchnorm(model)


def _throw_away(
    model: nn.Module, call: object, config: RunConfig, precision: Precision, world: World
) -> None:
    share = min(2, config.batch)
    size = config.data.size
    images = torch.zeros(share, 3, size, size, device=world.device)
    images[:, :, ::2] = 1.0  # stripes: a constant image has no variance
    try:
        with precision.autocast():
            out = call(images)  # type: ignore[operator]
        out.float().square().mean().backward()
    except (RuntimeError, ValueError, AssertionError) as error:
        if is_lost_peer(error) or is_out_of_memory(error):
            raise
        name = type(model).__name__
        raise RefusedError(
            f"{config.model.name} ({name}) does not run on {share} image(s) of {size} px: {error}",
            hint="try another --size, a larger --batch or fewer ranks",
        ) from error


def _refuse_unused(model: nn.Module, *, allowed: bool) -> None:
    unused = [n for n, p in model.named_parameters() if p.requires_grad and p.grad is None]
    if unused and not allowed:
        more = f" and {len(unused) - 5} more" if len(unused) > 5 else ""
        raise FailedError(
            f"these parameters get no gradient: {', '.join(unused[:5])}{more}",
            hint="mend the model, or accept it with --set model.allow_unused=true",
        )
