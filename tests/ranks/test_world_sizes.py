"""The number of ranks changes who computes what, never what is computed."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest
import torch

from crew import events, make_photos, prepare, run_ranks, train
from shanty.comm.world import World
from shanty.data.order import permutation
from shanty.data.views import EvalView
from shanty.predict.load import load_run
from shanty.record.atomic import read_json
from shanty.record.events import StepDone, Validated
from shanty.record.rundir import RunDir
from shanty.scan.dataset import DataSet
from shanty.spec.codec import from_dict, to_dict
from shanty.spec.config import (
    AugmentConfig,
    CheckpointConfig,
    DataConfig,
    ModelConfig,
    OptimConfig,
    RunConfig,
)
from shanty.spec.run import TrainSpec
from shanty.train import checkpoint
from shanty.train.evaluate import Exam, Watch, evaluate
from shanty.train.feed import EvalReader, Feed
from shanty.train.infer import Asked, infer

PLAIN = AugmentConfig(min_area=1.0, hflip=0.0, jitter=0.0)


def exact(**changes: object) -> RunConfig:
    """No BatchNorm, no augmentation, plain SGD: what must agree between world sizes."""
    settings = {
        "epochs": 4,
        "batch": 24,
        "model": ModelConfig(name="test_convnext"),
        "data": DataConfig(size=32, val_fraction=0.2),
        "augment": PLAIN,
        "optim": OptimConfig(name="sgd", lr=0.05, clip=0.0, ema=0.0, smoothing=0.0),
    } | changes
    return RunConfig(**settings)  # type: ignore[arg-type]


def weights(rundir: RunDir, file: str = "model.safetensors") -> dict[str, torch.Tensor]:
    found, _ = checkpoint.newest(rundir)
    assert found
    return found.tensors(file)


def largest_difference(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> float:
    assert a.keys() == b.keys()
    return max(float((a[k].double() - b[k].double()).abs().max()) for k in a)


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    # 152 images, 122 for training: 5 steps of 24 and a last one of 2, so some ranks get nothing
    return make_photos(tmp_path_factory.mktemp("photos"), {"a": 60, "b": 52, "c": 40})


@pytest.mark.parametrize("micro", [None, 5])
def test_k_ranks_equal_one_rank_after_20_steps(
    photos: Path, tmp_path: Path, micro: int | None
) -> None:
    runs = {}
    for ranks in (1, 2, 3):
        rundir = prepare(photos, tmp_path / str(ranks), exact(micro_batch=micro))
        states = train(rundir, ranks)
        assert all(state == states[0] for state in states)
        runs[ranks] = (weights(rundir), [e.body.loss for e in events(rundir, StepDone, rank=0)])
    assert len(runs[1][1]) >= 20
    for ranks in (2, 3):
        assert largest_difference(runs[1][0], runs[ranks][0]) < 1e-5
        assert np.allclose(runs[1][1], runs[ranks][1], atol=1e-5)


def test_validation_is_the_same_to_the_last_bit_for_1_to_4_ranks(
    photos: Path, tmp_path: Path
) -> None:
    first = prepare(photos, tmp_path / "first", exact(epochs=1))
    train(first, 1)
    found = {}
    for ranks in (1, 2, 3, 4):
        found[ranks] = run_ranks(ranks, measure, first.root)
    for ranks, answers in found.items():
        assert all(a == found[1][0] for a in answers), ranks


def measure(world: World, root: Path) -> tuple[object, str]:
    """Metrics and a hash of all logits of the saved run on its validation set."""

    run = load_run(root, "best", world.device)
    data = from_dict(DataSet, read_json(RunDir(root).data))
    watch = Watch(on_progress=lambda _: None, should_stop=lambda: False)
    threads = 3 if world.world_size == 1 else 1
    exam = Exam(root=data.root, samples=data.val, config=run.config, threads=threads)
    measured = evaluate(run.network, exam, world, watch)
    asked = Asked(
        count=len(data.val),
        read=EvalReader(data.root, tuple(s.path for s in data.val), EvalView(size=32, crop=0.95)),
        size=32,
        batch=7,
        threads=threads,
        limit=60,
    )
    answer = infer(run.network, asked, world, on_progress=lambda _: None, should_stop=lambda: False)
    assert measured
    assert answer
    return to_dict(measured), hashlib.sha256(answer.logits.numpy().tobytes()).hexdigest()


def test_every_image_is_taken_exactly_once_an_epoch_and_orders_differ(
    photos: Path, tmp_path: Path
) -> None:
    rundir = prepare(photos, tmp_path / "run", exact())
    taken = run_ranks(3, taken_by_rank, rundir.root)
    orders = []
    for epoch in range(3):
        parts = [set(rank[epoch]) for rank in taken]
        assert sum(len(rank[epoch]) for rank in taken) == 122
        assert set.union(*parts) == set(range(122))
        orders.append(permutation(0, epoch, 122).tolist())
    assert orders[0] != orders[1] != orders[2]
    assert run_ranks(1, taken_by_rank, rundir.root)[0][1] == orders[1]


def taken_by_rank(world: World, root: Path) -> list[list[int]]:
    """Sample indices that this rank really reads, per epoch."""

    rundir = RunDir(root)
    spec = from_dict(TrainSpec, read_json(rundir.spec))
    feed = Feed(from_dict(DataSet, read_json(rundir.data)), spec.config, world, decode_threads=2)
    read: list[list[int]] = [[] for _ in range(spec.config.epochs)]
    for order, batches in feed.steps(0):
        for batch in batches:
            read[order.epoch] += batch.indices.tolist()
    feed.close()
    return read


@pytest.mark.parametrize("images", range(60, 71))
def test_no_size_of_data_set_breaks_batchnorm(images: int, tmp_path: Path) -> None:
    photos = make_photos(tmp_path / "photos", {"a": 30, "b": images - 30})
    config = RunConfig(
        epochs=1,
        batch=32,
        model=ModelConfig(name="test_resnet"),
        data=DataConfig(size=32, val_fraction=0.0),
        checkpoint=CheckpointConfig(minutes=0),
    )
    for ranks in (1, 2):
        rundir = prepare(photos, tmp_path / f"run{ranks}", config)
        states = train(rundir, ranks)
        assert {state["samples_seen"] for state in states} == {images}
        steps = events(rundir, StepDone, rank=0)
        assert sum(e.body.images for e in steps) == images
        assert min(e.body.images for e in steps) > 1
        assert not events(rundir, Validated)
