"""The banner: every number that was derived, before the first step."""

from __future__ import annotations

import torch

from shanty import units
from shanty.record.events import Banner
from shanty.scan.dataset import DataSet
from shanty.spec.run import TrainSpec
from shanty.spec.slices import deal
from shanty.train.feed import Threads
from shanty.train.loop import Job
from shanty.train.state import TrainState


def banner(spec: TrainSpec, job: Job, data: DataSet, threads: Threads, state: TrainState) -> Banner:
    """Label and text, in reading order."""
    lines = [
        ("model", _model(spec, job, len(data.classes))),
        ("data", _data(data)),
        ("device", _device(job, threads)),
        ("batch", _batch(job)),
        ("steps", f"{job.feed.steps_per_epoch} an epoch, {job.feed.total_steps} in all"),
        ("rate", _rate(spec)),
        ("recipe", _recipe(spec)),
    ]
    if spec.resume:
        lines.append(("resume", _resume(spec, job, state)))
    return Banner(
        lines=tuple(lines),
        epochs=spec.config.epochs,
        steps_per_epoch=job.feed.steps_per_epoch,
        first_step=state.step,
    )


def _model(spec: TrainSpec, job: Job, classes: int) -> str:
    size = sum(p.numel() for p in job.parts.model.parameters())
    trained = sum(p.numel() for p in job.parts.trained)
    part = "" if trained == size else f", {trained / 1e6:.2f} M trained"
    return f"{spec.config.model.name}, {size / 1e6:.2f} M parameters{part}, {classes} classes"


def _data(data: DataSet) -> str:
    train, val = units.count(len(data.train)), units.count(len(data.val))
    return f"{train} training, {val} validation images, digest {data.digest[:12]}"


def _device(job: Job, threads: Threads) -> str:
    world, precision = job.parts.world, job.parts.precision
    name = "CPU"
    if world.device.type == "cuda":
        name = torch.cuda.get_device_name(world.device)
    amp = "fp32" if precision.amp == "off" else f"mixed precision {precision.amp}"
    return (
        f"{units.plural(world.world_size, 'rank')} on {name}, {amp}, "
        f"{units.plural(threads.compute, 'thread')} each"
    )


def _batch(job: Job) -> str:
    config, ranks = job.parts.config, job.parts.world.world_size
    shares = deal(config.batch, ranks)
    each = " + ".join(str(s) for s in shares) if ranks > 1 else ""
    micro = config.micro_batch
    times = -(-max(shares) // micro) if micro and micro < max(shares) else 1
    text = f"{config.batch} global" + (f" ({each})" if each else "")
    return text + (f", in {times} micro-batches of at most {micro}" if times > 1 else "")


def _rate(spec: TrainSpec) -> str:
    optim, schedule = spec.config.optim, spec.config.schedule
    return (
        f"{optim.lr:.3g} ({spec.lr_rule}; the number of ranks does not change it), "
        f"{schedule.warmup:g} epochs warm-up, cosine to {schedule.final_lr:g} of it"
    )


def _recipe(spec: TrainSpec) -> str:
    optim = spec.config.optim
    parts = [f"{spec.recipe}: {optim.name}", f"decay {optim.weight_decay:g}"]
    parts += [f"smoothing {optim.smoothing:g}"] if optim.smoothing else []
    parts += [f"EMA {optim.ema:g}"] if optim.ema else []
    parts += [f"clip {optim.clip:g}"] if optim.clip else []
    return ", ".join(parts)


def _resume(spec: TrainSpec, job: Job, state: TrainState) -> str:
    epoch, step = divmod(state.step, job.feed.steps_per_epoch)
    before = spec.attempts[-2].world_size if len(spec.attempts) > 1 else 0
    ranks = job.parts.world.world_size
    now = f"{ranks} ranks" if before == ranks else f"{ranks} ranks (before: {before})"
    return f"epoch {epoch + 1}, step {step + 1} of {job.feed.steps_per_epoch}, on {now}"
