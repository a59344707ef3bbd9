"""Augmentation: every image and epoch has its own stream, whoever computes it."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from crew import prepare, run_ranks
from shanty.comm.world import World
from shanty.record.atomic import read_json
from shanty.record.rundir import RunDir
from shanty.scan.dataset import DataSet
from shanty.spec.codec import from_dict
from shanty.spec.config import AugmentConfig, DataConfig, ModelConfig, RunConfig
from shanty.spec.run import TrainSpec
from shanty.train.feed import Feed
from shanty.train.parts import assemble

Views = dict[tuple[int, int], str]


@pytest.fixture
def one_picture(tmp_path: Path) -> Path:
    """Sixty copies of one picture: what differs in them was drawn."""
    pixels = np.random.default_rng(4).integers(0, 255, (48, 56, 3), dtype=np.uint8)
    for number in range(60):
        file = tmp_path / "photos" / "ab"[number % 2] / f"{number}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(file)
    return tmp_path / "photos"


def config(seed: int) -> RunConfig:
    return RunConfig(
        epochs=3,
        batch=8,
        seed=seed,
        model=ModelConfig(name="test_resnet"),
        data=DataConfig(size=32, val_fraction=0),
        augment=AugmentConfig(jitter=0.4, randaugment=2),
    )


def views(world: World, root: Path, threads: int) -> Views:
    """A hash of every view that this rank reads, by epoch and image."""
    spec = from_dict(TrainSpec, read_json(RunDir(root).spec))
    data = from_dict(DataSet, read_json(RunDir(root).data))
    feed = Feed(data, spec.config, world, decode_threads=threads)
    seen: Views = {}
    for order, batches in feed.steps(0):
        for batch in batches:
            for index, image in zip(batch.indices.tolist(), batch.images, strict=True):
                seen[order.epoch, index] = hashlib.sha256(image.numpy().tobytes()).hexdigest()
    feed.close()
    return seen


def together(ranks: int, root: Path, threads: int) -> Views:
    parts = run_ranks(ranks, views, root, threads)
    merged = {key: value for part in parts for key, value in part.items()}
    assert len(merged) == sum(map(len, parts))
    return merged


def test_views_differ_by_image_and_epoch_and_repeat_by_seed_at_any_number_of_ranks(
    one_picture: Path, tmp_path: Path
) -> None:
    first = prepare(one_picture, tmp_path / "first", config(seed=1)).root
    other = prepare(one_picture, tmp_path / "other", config(seed=2)).root
    alone = together(1, first, 1)
    assert len(alone) == 3 * 60
    assert len(set(alone.values())) == len(alone), "two images, or two epochs, drew the same"
    assert together(3, first, 3) == alone
    assert not set(together(1, other, 1).values()) & set(alone.values())


def first_weights(world: World, seed: int) -> dict[str, torch.Tensor]:
    return {k: v.clone() for k, v in assemble(config(seed), 2, world).model.state_dict().items()}


def same(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    return all(torch.equal(a[k], b[k]) for k in a)


def test_first_weights_are_equal_on_all_ranks_and_differ_by_seed() -> None:
    one, two, three = run_ranks(3, first_weights, 1)
    assert same(one, two)
    assert same(one, three)
    assert same(one, run_ranks(1, first_weights, 1)[0])
    assert not same(one, run_ranks(1, first_weights, 2)[0])
