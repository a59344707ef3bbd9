"""What one step promises: all or nothing, the right weights, the same replicas."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import timm
import torch
import torch.distributed as dist
from PIL import Image
from test_world_sizes import measure
from torch import nn

from crew import events, make_photos, prepare, run_ranks, train
from shanty.comm.replicas import compare
from shanty.comm.world import World
from shanty.data.loader import Batch
from shanty.errors import FailedError
from shanty.record.events import BadImage, EpochDone, StepDone, StepSkipped, Validated
from shanty.spec.config import (
    AugmentConfig,
    DataConfig,
    ModelConfig,
    OptimConfig,
    RunConfig,
    SyncConfig,
)
from shanty.train import checkpoint
from shanty.train.build import create
from shanty.train.parts import Parts, assemble
from shanty.train.step import Order, Outcome, Stepper, Wishes

PLAIN = AugmentConfig(min_area=1.0, hflip=0.0, jitter=0.0)


def small(**changes: Any) -> RunConfig:
    settings: dict[str, Any] = {
        "epochs": 1,
        "batch": 12,
        "model": ModelConfig(name="test_resnet"),
        "data": DataConfig(size=32),
        "augment": PLAIN,
        "optim": OptimConfig(
            name="sgd", lr=0.1, clip=0.0, ema=0.5, smoothing=0.0, weight_decay=0.0, head_lr_scale=1
        ),
    }
    return RunConfig(**(settings | changes))


def a_batch(count: int, first: int = 0) -> Batch:
    generator = torch.Generator().manual_seed(first + 1)
    images = torch.randint(0, 255, (count, 32, 32, 3), generator=generator).to(torch.uint8)
    indices = torch.arange(first, first + count)
    return Batch(images=images, indices=indices, bad=(), waited=0.0)


def snapshot(parts: Parts) -> dict[str, torch.Tensor]:
    held = {f"model.{k}": v.clone() for k, v in parts.model.state_dict().items()}
    assert parts.ema
    held |= {f"ema.{k}": v.clone() for k, v in parts.ema.average.items()}
    for place, values in enumerate(parts.optimizer.state.values()):
        held |= {f"optim.{place}.{k}": torch.as_tensor(v).clone() for k, v in values.items()}
    return held


def run_step(world: World, stepper: Stepper, step: int, share: int, images: int) -> Outcome:
    order = Order(step=step, epoch=0, images=images, micros=1)
    return stepper.run(order, [a_batch(share, 10 * world.rank)], Wishes())


def poison(_module: nn.Module, args: tuple[torch.Tensor]) -> tuple[torch.Tensor]:
    return (args[0] * math.nan,)


def pass_on(_module: nn.Module, args: tuple[torch.Tensor]) -> tuple[torch.Tensor]:
    return args


def poisoned_step(world: World) -> dict[str, Any]:
    """One good step, then one in which rank 1's images give NaN, then a good one."""
    parts = assemble(small(), 3, world)
    labels = torch.arange(40) % 3
    stepper = Stepper(parts, labels, total_steps=10, warmup_steps=0)
    run_step(world, stepper, 0, 4, 8)
    before = snapshot(parts)
    handle = parts.model.register_forward_pre_hook(poison if world.rank == 1 else pass_on)
    outcome = run_step(world, stepper, 1, 4, 8)
    handle.remove()
    after = snapshot(parts)
    good = run_step(world, stepper, 2, 4, 8)
    return {
        "outcome": outcome,
        "unchanged": all(torch.equal(before[k], after[k]) for k in before),
        "sick": stepper.last.sick_indices,
        "good": good,
        "finite": all(bool(torch.isfinite(v).all()) for v in snapshot(parts).values()),
        "weights": dict(parts.model.named_parameters()),
    }


def test_nan_on_one_rank_is_rolled_back_on_all() -> None:
    found = run_ranks(2, poisoned_step)
    for rank in found:
        assert not rank["outcome"].committed
        assert rank["outcome"].sick == (1,)
        assert rank["unchanged"]
        assert rank["good"].committed
        assert rank["finite"]
    for name, value in found[0]["weights"].items():
        assert torch.equal(value, found[1]["weights"][name])


def unequal_gradient(world: World, shares: list[int]) -> dict[str, torch.Tensor]:
    """The gradient of the mean over all images, when ranks hold ``shares`` of them."""
    config = small(model=ModelConfig(name="test_convnext"))
    parts = assemble(config, 3, world)
    stepper = Stepper(parts, torch.arange(40) % 3, total_steps=10, warmup_steps=0)
    start = sum(shares[: world.rank])
    share = shares[world.rank]
    whole = a_batch(sum(shares))
    batch = Batch(
        images=whole.images[start : start + share],
        indices=whole.indices[start : start + share],
        bad=(),
        waited=0.0,
    )
    order = Order(step=0, epoch=0, images=sum(shares), micros=1)
    stepper.run(order, [batch], Wishes())
    return {k: v.detach().clone() for k, v in parts.model.named_parameters()}


@pytest.mark.parametrize("shares", [[4, 4, 4], [7, 4, 1], [6, 6, 0], [12, 0, 0]])
def test_the_gradient_is_the_mean_over_the_global_batch(shares: list[int]) -> None:
    alone = run_ranks(1, unequal_gradient, [12])[0]
    together = run_ranks(3, unequal_gradient, shares)
    for rank in together:
        for name, value in alone.items():
            assert torch.allclose(value, rank[name], atol=2e-6), name


def missing_images(world: World) -> tuple[Outcome, dict[str, torch.Tensor]]:
    """A slice of 12 of which 4 could not be decoded: the mean is over the 8 that are there."""
    parts = assemble(small(model=ModelConfig(name="test_convnext")), 3, world)
    stepper = Stepper(parts, torch.arange(40) % 3, total_steps=10, warmup_steps=0)
    order = Order(step=0, epoch=0, images=12, micros=1)
    outcome = stepper.run(order, [a_batch(8)], Wishes())
    return outcome, {k: v.detach().clone() for k, v in parts.model.named_parameters()}


def test_images_left_out_do_not_weigh() -> None:
    outcome, weights = run_ranks(1, missing_images)[0]
    assert outcome.images == 8
    exact = run_ranks(1, unequal_gradient, [8])[0]
    for name, value in exact.items():
        assert torch.allclose(value, weights[name], atol=1e-6), name


def drifting(world: World) -> str:
    """Train past the wrapper on rank 1 (T9): its gradients are never exchanged."""
    parts = assemble(small(), 3, world)
    named = list(parts.model.named_parameters())
    compare(world, named, 0)
    if world.rank == 1:
        with torch.no_grad():
            named[4][1].view(torch.int32).view(-1)[7] ^= 1  # one flipped bit
    try:
        compare(world, named, 100)
    except FailedError as error:
        return error.what
    return "not noticed"


def test_one_flipped_bit_is_noticed_and_named() -> None:
    for text in run_ranks(3, drifting):
        assert "rank 1" in text
        assert "step 100" in text
        assert "rank 0" not in text


def calls_sent(world: World, micros: int) -> int:
    """All-reduces of gradients in one optimizer step of several micro-batches (T6)."""
    parts = assemble(small(sync=SyncConfig(bucket_mb=1000)), 3, world)
    sent: list[int] = []
    real = dist.all_reduce

    def counted(tensor: torch.Tensor, *, async_op: bool) -> Any:
        sent.append(tensor.numel())
        return real(tensor, async_op=async_op)

    patched = patch.object(dist, "all_reduce", counted)
    stepper = Stepper(parts, torch.arange(40) % 3, total_steps=10, warmup_steps=0)
    order = Order(step=0, epoch=0, images=8 * micros, micros=micros)
    with patched:
        stepper.run(order, [a_batch(4, 4 * m) for m in range(micros)], Wishes())
    assert sum(sent) == sum(p.numel() for p in parts.trained)
    return len(sent)


def test_accumulation_sends_the_gradient_once() -> None:
    assert run_ranks(2, calls_sent, 4) == run_ranks(2, calls_sent, 1)


def test_frozen_backbone_stays_bit_equal(tmp_path: Path) -> None:
    photos = make_photos(tmp_path / "photos", {"a": 20, "b": 20})
    config = small(model=ModelConfig(name="test_resnet", freeze="backbone"), epochs=2)
    rundir = prepare(photos, tmp_path / "run", config)
    train(rundir, 2)
    found, _ = checkpoint.newest(rundir)
    assert found
    trained = found.tensors("model.safetensors")
    fresh = create(config.model, 2, config.seed, 32).state_dict()
    changed = {k for k, v in fresh.items() if not torch.equal(v, trained[k])}
    assert changed == {"fc.weight", "fc.bias"}
    optimizer = found.tensors("train.safetensors")
    assert {k.split(".")[1] for k in optimizer if k.startswith("optim.")} == {"fc"}


def unused_branch(world: World) -> str:
    """A model with a layer that never gets a gradient (T4)."""

    def with_spare(*args: Any, **options: Any) -> nn.Module:
        model = real(*args, **options)
        model.spare = nn.Linear(3, 3)
        return model

    real, timm.create_model = timm.create_model, with_spare
    try:
        assemble(small(), 3, world)
    except FailedError as error:
        return str(error)
    return "not noticed"


def test_parameters_without_gradient_are_named_before_the_first_step() -> None:
    for text in run_ranks(2, unused_branch):
        assert "spare.weight" in text
        assert "model.allow_unused" in text


def test_a_bad_image_is_left_out_alike_by_1_and_3_ranks(tmp_path: Path) -> None:
    photos = make_photos(tmp_path / "photos", {"a": 30, "b": 33})
    victim = photos / "a" / "007.png"
    victim.write_bytes(victim.read_bytes()[:200])
    weights = []
    for ranks in (1, 3):
        config = small(
            epochs=2,
            model=ModelConfig(name="test_convnext"),
            data=DataConfig(size=32, val_fraction=0),
        )
        rundir = prepare(photos, tmp_path / f"run{ranks}", config)
        train(rundir, ranks)
        assert {e.body.path for e in events(rundir, BadImage)} == {"a/007.png"}
        assert [e.body.bad for e in events(rundir, EpochDone)] == [1, 1]
        assert [e.body.images for e in events(rundir, EpochDone)] == [62, 62]
        assert not events(rundir, StepSkipped)
        found, _ = checkpoint.newest(rundir)
        assert found
        weights.append(found.tensors("model.safetensors"))
    for name, value in weights[0].items():
        assert torch.allclose(value.float(), weights[1][name].float(), atol=1e-5), name


def test_a_bad_validation_image_is_left_out_and_named(tmp_path: Path) -> None:
    photos = make_photos(tmp_path / "photos" / "train", {"a": 12, "b": 12}).parent
    make_photos(photos / "val", {"a": 5, "b": 6}, seed=2)
    victim = photos / "val" / "b" / "003.png"
    victim.write_bytes(victim.read_bytes()[:200])
    rundir = prepare(photos, tmp_path / "run", small())
    train(rundir, 2)
    assert [(e.body.count, e.body.bad) for e in events(rundir, Validated)] == [(10, 1)]
    named = [e.body for e in events(rundir, BadImage)]
    assert [(b.path, b.use) for b in named] == [("val/b/003.png", "validate")]


def test_a_bad_image_stops_the_run_where_it_is_refused(tmp_path: Path) -> None:
    photos = make_photos(tmp_path / "photos", {"a": 30, "b": 33})
    victim = photos / "a" / "007.png"
    victim.write_bytes(victim.read_bytes()[:200])
    config = small(data=DataConfig(size=32, val_fraction=0, bad="refuse"))
    rundir = prepare(photos, tmp_path / "run", config)
    with pytest.raises((FailedError, RuntimeError)):
        train(rundir, 1)


def test_an_epoch_without_one_usable_image_ends_the_run(tmp_path: Path) -> None:
    photos = make_photos(tmp_path / "photos", {"a": 8, "b": 8})
    rundir = prepare(photos, tmp_path / "run", small(epochs=2))
    for file in photos.rglob("*.png"):
        file.write_bytes(file.read_bytes()[:150])
    with pytest.raises(FailedError, match="not one of 14 training images"):
        train(rundir, 2)


def test_images_that_vanish_stop_the_run_instead_of_being_skipped(tmp_path: Path) -> None:
    photos = make_photos(tmp_path / "photos", {"a": 30, "b": 33})
    rundir = prepare(photos, tmp_path / "run", small())
    photos.rename(tmp_path / "unplugged")
    with pytest.raises(FailedError, match="cannot be read: No such file"):
        train(rundir, 1)
    assert not events(rundir, BadImage)


def test_nan_everywhere_stops_the_run_after_the_limit(tmp_path: Path) -> None:
    photos = make_photos(tmp_path / "photos", {"a": 60, "b": 60})
    config = small(batch=8, nan_limit=3, optim=OptimConfig(name="sgd", lr=1e30, clip=0, ema=0))
    rundir = prepare(photos, tmp_path / "run", config)
    with pytest.raises(FailedError, match="4 steps in a row"):
        train(rundir, 2)
    skipped = events(rundir, StepSkipped, rank=0)
    assert len(skipped) == 4
    assert len(events(rundir, StepDone, rank=0)) + 4 < 14


def test_both_kinds_of_weights_are_reproduced_from_the_saved_file(tmp_path: Path) -> None:
    photos = tmp_path / "photos"
    make_photos(photos, {"a": 40, "b": 40}, seed=1)
    for place, file in enumerate(sorted((photos / "b").glob("*.png"))):
        Image.new("RGB", (40, 40), (place * 5, 255 - place * 5, 0)).save(file)
    for decay in (0.0, 0.9):
        config = small(epochs=2, optim=OptimConfig(name="adamw", lr=0.01, ema=decay))
        rundir = prepare(photos, tmp_path / f"run{decay}", config)
        states = train(rundir, 2)
        measured, _ = run_ranks(1, measure, rundir.root)[0]
        assert measured["metrics"] == states[0]["best"]  # type: ignore[index]
