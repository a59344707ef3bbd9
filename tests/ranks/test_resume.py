"""A run that was stopped and resumed is the run that was not."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch

from crew import events, make_photos, prepare, train
from shanty.errors import RefusedError
from shanty.record.atomic import read_json
from shanty.record.events import Note, StepDone, Validated
from shanty.record.rundir import RunDir
from shanty.spec.config import (
    AugmentConfig,
    CheckpointConfig,
    DataConfig,
    ModelConfig,
    OptimConfig,
    RunConfig,
)
from shanty.train import checkpoint

FILES = ("model.safetensors", "ema.safetensors", "train.safetensors")


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_photos(tmp_path_factory.mktemp("photos"), {"a": 50, "b": 50, "c": 31})


def everything_on() -> RunConfig:
    """All that has a state: BatchNorm, dropout, AdamW, EMA, mixing, augmentation, schedule."""
    return RunConfig(
        epochs=3,
        batch=16,
        seed=3,
        model=ModelConfig(name="test_resnet", drop=0.2),
        data=DataConfig(size=32, val_fraction=0.2),
        augment=AugmentConfig(mixup=0.2, cutmix=0.5, randaugment=2, jitter=0.3),
        optim=OptimConfig(name="adamw", ema=0.9),
        checkpoint=CheckpointConfig(keep=50, minutes=0),
    )


def final(rundir: RunDir) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    found, _ = checkpoint.newest(rundir)
    assert found
    tensors = {f"{f}/{k}": t for f in FILES for k, t in found.tensors(f).items()}
    return tensors, found.meta


@pytest.fixture(scope="module")
def straight(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> RunDir:
    rundir = prepare(photos, tmp_path_factory.mktemp("straight") / "run", everything_on())
    train(rundir, 3)
    return rundir


# 7 steps an epoch: inside the first epoch, inside the second, and while validating after it
@pytest.mark.parametrize("stop_after", [3, 12, 14])
def test_resume_is_bit_exact_on_the_same_world_size(
    photos: Path, tmp_path: Path, straight: RunDir, stop_after: int
) -> None:
    rundir = prepare(photos, tmp_path / "run", everything_on())
    stopped = train(rundir, 3, stop_after=stop_after)
    assert all("saved" in state["stopped"] for state in stopped)
    train(rundir, 3, resume=True)
    whole, whole_meta = final(straight)
    parts, parts_meta = final(rundir)
    different = [k for k in whole if not torch.equal(whole[k], parts[k])]
    assert whole.keys() == parts.keys()
    assert not different
    assert whole_meta["state"] == parts_meta["state"]

    def rates(run: RunDir) -> list[tuple[int, float, float]]:
        return [(e.step, e.body.lr, e.body.loss) for e in events(run, StepDone, rank=0)]

    def scores(run: RunDir) -> list[tuple[float, float]]:
        return [(e.body.accuracy, e.body.log_loss) for e in events(run, Validated)]

    assert rates(rundir) == rates(straight)
    assert scores(rundir) == scores(straight)


@pytest.mark.parametrize("ranks", [1, 2])
def test_resume_on_another_world_size_takes_every_image_once(
    photos: Path, tmp_path: Path, ranks: int
) -> None:
    rundir = prepare(photos, tmp_path / "run", everything_on())
    train(rundir, 3, stop_after=9)
    states = train(rundir, ranks, resume=True)
    images = len(rundir_images(rundir))
    assert {s["samples_seen"] for s in states} == {3 * images}
    steps = events(rundir, StepDone, rank=0)
    assert [e.step for e in steps] == list(range(1, len(steps) + 1))
    per_epoch = Counter[int]()
    for event in steps:
        per_epoch[event.body.epoch] += event.body.images
    assert set(per_epoch.values()) == {images}


def rundir_images(rundir: RunDir) -> list[Any]:
    return read_json(rundir.data)["train"]


def test_a_broken_newest_checkpoint_is_skipped_and_said(photos: Path, tmp_path: Path) -> None:
    rundir = prepare(photos, tmp_path / "run", everything_on())
    train(rundir, 1, stop_after=9)  # saved after step 7 (the epoch's end) and after step 10
    found, _ = checkpoint.newest(rundir)
    assert found
    file = found.path / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-7])
    states = train(rundir, 1, resume=True)
    assert states[0]["samples_seen"] == 3 * len(rundir_images(rundir))
    notes = [e.body.text for e in events(rundir, Note)]
    assert any(found.path.name in text and "not complete" in text for text in notes)


def test_resume_without_any_checkpoint_is_refused(photos: Path, tmp_path: Path) -> None:
    rundir = prepare(photos, tmp_path / "run", everything_on())
    with pytest.raises(RefusedError, match="no complete checkpoint"):
        train(rundir, 1, resume=True)


def test_resume_with_other_image_rules_is_refused(photos: Path, tmp_path: Path) -> None:
    rundir = prepare(photos, tmp_path / "run", everything_on())
    train(rundir, 1, stop_after=3)
    found, _ = checkpoint.newest(rundir)
    assert found
    other = found.meta["images"] | {"rules": "0"}
    files = {name: found.tensors(name) for name in FILES}
    meta = {k: v for k, v in found.meta.items() if k not in ("format", "files", "seal")}
    checkpoint.write(rundir, 4000, files, meta | {"images": other})
    with pytest.raises(RefusedError, match="image rules '0'"):
        train(rundir, 1, resume=True)
