"""More of what one step promises: clipping, number formats, NaN in a real run, no exchange."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import pytest
import timm
import torch
from test_resume import final
from test_steps import a_batch, pass_on, poison, run_step, small, snapshot

from crew import events, make_photos, prepare, run_ranks, start_ranks, train, train_rank
from shanty.comm.place import Place
from shanty.comm.sync import LocalSync
from shanty.comm.world import World
from shanty.errors import FailedError, RefusedError
from shanty.record.events import Banner, StepDone, StepSkipped
from shanty.spec.config import (
    AugmentConfig,
    CheckpointConfig,
    DataConfig,
    ModelConfig,
    OptimConfig,
    PrecisionConfig,
    RunConfig,
    SyncConfig,
)
from shanty.train import parts as parts_module
from shanty.train import worker
from shanty.train.build import build_model, build_optimizer
from shanty.train.parts import Parts, assemble
from shanty.train.step import Order, Stepper, Wishes


def moved(world: World, clip: float) -> float:
    """How far one plain SGD step of rate 0.1 moves all weights together."""
    optim = OptimConfig(name="sgd", lr=0.1, momentum=0.0, weight_decay=0.0, clip=clip, ema=0.5)
    parts = assemble(small(optim=optim), 3, world)
    before = [p.detach().clone() for p in parts.trained]
    stepper = Stepper(parts, torch.arange(40) % 3, total_steps=10, warmup_steps=0)
    run_step(world, stepper, 0, 4, 8)
    pairs = zip(before, parts.trained, strict=True)
    return float(torch.sqrt(sum(((b - p.detach()) ** 2).sum() for b, p in pairs)))  # type: ignore[arg-type]


def test_a_long_gradient_is_shortened_alike_on_all_ranks() -> None:
    free = run_ranks(2, moved, 0.0)
    assert min(free) > 0.1 * 0.02, "it is longer than the limit"
    assert run_ranks(2, moved, 0.02) == pytest.approx([0.1 * 0.02] * 2, rel=1e-3)
    assert run_ranks(2, moved, 1e6) == pytest.approx(free)


def poisoned_mixed(world: World, amp: Literal["bf16", "fp16"]) -> dict[str, Any]:
    """T7 in mixed precision: a good step, NaN on rank 1, a good step."""
    parts = assemble(small(precision=PrecisionConfig(amp=amp)), 3, world)
    stepper = Stepper(parts, torch.arange(40) % 3, total_steps=10, warmup_steps=0)
    first = run_step(world, stepper, 0, 4, 8)
    before, scale = snapshot(parts), parts.scaler.get_scale()
    handle = parts.model.register_forward_pre_hook(poison if world.rank == 1 else pass_on)
    bad = run_step(world, stepper, 1, 4, 8)
    handle.remove()
    after, lowered = snapshot(parts), parts.scaler.get_scale()
    good = run_step(world, stepper, 2, 4, 8)
    return {
        "committed": (first.committed, bad.committed, good.committed),
        "sick": bad.sick,
        "unchanged": all(torch.equal(before[k], after[k]) for k in before),
        "scales": (scale, lowered),
        "weights": dict(parts.model.named_parameters()),
    }


@pytest.mark.parametrize("amp", ["bf16", "fp16"])
def test_nan_on_one_rank_is_rolled_back_on_all_in_mixed_precision(amp: str) -> None:
    one, two = run_ranks(2, poisoned_mixed, amp)
    for rank in (one, two):
        assert rank["committed"] == (True, False, True)
        assert rank["sick"] == (1,)
        assert rank["unchanged"]
        before, after = rank["scales"]
        assert after == (before / 2 if amp == "fp16" else before)
    for name, value in one["weights"].items():
        assert torch.equal(value, two["weights"][name])


def bypassing(place: Place, root: Path) -> Any:
    """A training whose forward goes past the exchange of gradients (T9)."""
    parts_module.make_sync = lambda model, _world, **_: LocalSync(model)  # type: ignore[assignment]
    return train_rank(place, root, 0)


def test_a_run_that_exchanges_nothing_is_stopped_after_its_first_step(tmp_path: Path) -> None:
    photos = make_photos(tmp_path / "photos", {"a": 20, "b": 20})
    rundir = prepare(photos, tmp_path / "run", small())
    with pytest.raises(FailedError, match=r"replicas differ after step 1: \S+ is not the same on"):
        start_ranks(2, bypassing, rundir.root)
    assert {e.step for e in events(rundir, StepDone)} == {1}


def poisoned_run(place: Place, root: Path, stop_after: int) -> Any:
    """A training in which rank 1's third step gives NaN."""
    real = worker.assemble

    def with_poison(*args: Any, **options: Any) -> Parts:
        parts = real(*args, **options)
        calls = 0

        def hook(module: torch.nn.Module, values: tuple[torch.Tensor]) -> tuple[torch.Tensor]:
            nonlocal calls
            calls += module.training
            return poison(module, values) if module.training and calls == 3 else values

        if place.rank == 1:
            parts.model.register_forward_pre_hook(hook)
        return parts

    worker.assemble = with_poison
    return train_rank(place, root, stop_after)


def test_a_skipped_step_is_told_with_rank_and_files_and_survives_a_resume(tmp_path: Path) -> None:
    photos = make_photos(tmp_path / "photos", {"a": 24, "b": 24})
    config = small(epochs=2, batch=8, augment=AugmentConfig(), checkpoint=CheckpointConfig(keep=1))
    straight = prepare(photos, tmp_path / "straight", config)
    states = start_ranks(2, poisoned_run, straight.root, 0)
    assert [s["skipped"] for s in states] == [1, 1]
    told = events(straight, StepSkipped)
    assert {(e.step, e.body.where) for e in told} == {(3, ("rank 1",))}
    (blamed,) = [e.body.files for e in told if e.rank == 1]
    assert len(blamed) == 4
    done = [e.step for e in events(straight, StepDone, rank=0)]
    assert 3 not in done
    assert len(done) == states[0]["step"] - 1

    stopped = prepare(photos, tmp_path / "stopped", config)
    start_ranks(2, poisoned_run, stopped.root, 3)
    train(stopped, 2, resume=True)
    whole, meta = final(straight)
    parts, parts_meta = final(stopped)
    assert not [k for k in whole if not torch.equal(whole[k], parts[k])]
    assert meta["state"] == parts_meta["state"]


def hard_case(world: World) -> tuple[list[int], bool]:
    """BatchNorm, mixing and micro-batches, where one rank holds one image or none."""
    config = small(augment=AugmentConfig(mixup=0.3, cutmix=0.3), micro_batch=2)
    parts = assemble(config, 3, world)
    stepper = Stepper(parts, torch.arange(40) % 3, total_steps=10, warmup_steps=0)
    taken = []
    for step, shares in enumerate(([5, 1, 0], [0, 0, 2], [1, 1, 1])):
        share = shares[world.rank]
        sizes = [2] * (share // 2) + [1] * (share % 2) or [0]
        order = Order(step=step, epoch=0, images=sum(shares), micros=len(sizes))
        outcome = stepper.run(order, [a_batch(n, 9 * world.rank) for n in sizes], Wishes())
        taken.append(outcome.images if outcome.committed else -1)
    finite = all(bool(torch.isfinite(t).all()) for t in parts.model.state_dict().values())
    return taken, finite


def test_shares_of_one_image_and_of_none_pass_batchnorm_and_mixing() -> None:
    assert run_ranks(3, hard_case) == [([6, 2, 3], True)] * 3


def test_the_banner_says_what_was_derived(tmp_path: Path) -> None:
    photos = make_photos(tmp_path / "photos", {"a": 20, "b": 20})
    config = RunConfig(
        epochs=2,
        batch=12,
        micro_batch=3,
        model=ModelConfig(name="test_convnext"),
        data=DataConfig(size=32, val_fraction=0),
        optim=OptimConfig(lr=0.001),
    )
    rundir = prepare(photos, tmp_path / "run", config)
    train(rundir, 2)
    lines = dict(events(rundir, Banner, rank=0)[0].body.lines)
    assert lines["batch"] == "12 global (6 + 6), in 2 micro-batches of at most 3"
    assert lines["steps"] == "4 an epoch, 8 in all"
    assert lines["rate"].startswith("0.001 (as given; the number of ranks does not change it)")
    assert "adamw" in lines["recipe"]
    assert "2 ranks" in lines["device"]


def with_unused_branch(world: World) -> tuple[bool, dict[str, torch.Tensor]]:
    """Two steps of a model with a layer that nothing reaches, which the config accepts."""
    real = timm.create_model

    def with_spare(*args: Any, **options: Any) -> torch.nn.Module:
        model = real(*args, **options)
        model.spare = torch.nn.Linear(3, 3)
        return model

    timm.create_model = with_spare
    accepted = ModelConfig(name="test_resnet", allow_unused=True)
    optim = OptimConfig(name="sgd", lr=0.1, clip=0.0, weight_decay=0.0, ema=0.5)
    parts = assemble(small(model=accepted, optim=optim), 3, world)
    stepper = Stepper(parts, torch.arange(40) % 3, total_steps=10, warmup_steps=0)
    spare = parts.model.get_parameter("spare.weight").detach().clone()
    done = [run_step(world, stepper, step, 4, 8).committed for step in (0, 1)]
    weights = {k: v.detach().clone() for k, v in parts.model.named_parameters()}
    return all(done) and torch.equal(spare, weights["spare.weight"]), weights


def test_an_accepted_unused_layer_stays_as_it_is_and_the_rest_learns_alike() -> None:
    (one, first), (two, second) = run_ranks(2, with_unused_branch)
    assert one
    assert two
    assert all(torch.equal(first[k], second[k]) for k in first)


def synchronised(world: World) -> str:
    try:
        assemble(small(sync=SyncConfig(sync_bn=True)), 3, world)
    except RefusedError as error:
        return str(error)
    return "accepted"


def test_sync_batchnorm_is_refused_where_torch_has_it_on_gpus_only() -> None:
    assert all("works on GPUs only" in text for text in run_ranks(2, synchronised))
    assert run_ranks(1, synchronised) == ["accepted"]  # nothing to synchronise


def test_decay_spares_biases_and_norms_and_a_new_head_has_its_own_rate(tmp_path: Path) -> None:
    config = small(
        model=ModelConfig(name="test_resnet", weights=str(tmp_path / "w.safetensors")),
        optim=OptimConfig(name="adamw", lr=1e-3, weight_decay=0.1, head_lr_scale=7.0),
    )
    model = build_model(config.model, 3, 0, 32, with_weights=False)
    names = {parameter: name for name, parameter in model.named_parameters()}
    seen: dict[str, tuple[float, float]] = {}
    for group in build_optimizer(model, config).param_groups:
        for parameter in group["params"]:
            seen[names[parameter]] = (group["weight_decay"], group["scale"])
    assert seen.keys() == set(names.values())
    for parameter, name in names.items():
        scale = 7.0 if name.startswith("fc.") else 1.0
        assert seen[name] == (0.1 if parameter.ndim > 1 else 0.0, scale), name
