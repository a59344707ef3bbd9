"""Saves inside an epoch, at its very end, and one writer among four ranks."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from test_resume import everything_on, final
from test_steps import small

from crew import events, make_photos, prepare, train
from shanty.errors import RefusedError
from shanty.record.events import Saved, StepDone
from shanty.spec.config import CheckpointConfig
from shanty.train import checkpoint
from shanty.train.checkpoint import name_of


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_photos(tmp_path_factory.mktemp("photos"), {"a": 30, "b": 26})


def test_every_few_minutes_one_rank_of_four_saves_and_a_reader_sees_whole_ones(
    photos: Path, tmp_path: Path
) -> None:
    settings = CheckpointConfig(keep=2, minutes=1e-9)  # every step
    rundir = prepare(photos, tmp_path / "run", small(epochs=2, batch=8, checkpoint=settings))
    read = 0
    with ThreadPoolExecutor(1) as pool:
        training = pool.submit(train, rundir, 4)
        while not training.done():
            found, skipped = checkpoint.newest(rundir)
            assert skipped == ()
            try:
                read += bool(found and found.tensors("model.safetensors"))
            except RefusedError as error:
                assert "removed while it was read" in error.what  # noqa: PT017 - a rare case
        states = training.result()
    steps = states[0]["step"]
    assert [(e.rank, e.step) for e in events(rundir, Saved)] == [(0, s + 1) for s in range(steps)]
    kept = {p.name for p in rundir.checkpoints.iterdir()}
    best = checkpoint.named(rundir, "best").path.name
    assert kept == {name_of(steps), name_of(steps - 1), best}
    assert read >= 5


def test_a_stop_at_the_very_end_of_an_epoch_resumes_to_the_bit_with_one_checkpoint_kept(
    photos: Path, tmp_path: Path
) -> None:
    config = replace(everything_on(), epochs=2, checkpoint=CheckpointConfig(keep=1, minutes=0))
    straight = prepare(photos, tmp_path / "straight", config)
    per_epoch = train(straight, 2)[0]["step"] // 2
    stopped = prepare(photos, tmp_path / "stopped", config)
    told = train(stopped, 2, stop_after=per_epoch - 1)
    assert told[0]["stopped"] == f"stopped after step {per_epoch}, saved"
    train(stopped, 2, resume=True)
    whole, meta = final(straight)
    parts, parts_meta = final(stopped)
    assert not [k for k in whole if not torch.equal(whole[k], parts[k])]
    assert meta["state"] == parts_meta["state"]
    steps = [e.step for e in events(stopped, StepDone, rank=0)]
    assert steps == list(range(1, 2 * per_epoch + 1))


def test_resuming_a_finished_run_changes_nothing(photos: Path, tmp_path: Path) -> None:
    rundir = prepare(photos, tmp_path / "run", small(epochs=1))
    first = train(rundir, 2)
    tensors, meta = final(rundir)
    assert train(rundir, 3, resume=True)[0] == first[0]
    again, meta_again = final(rundir)
    assert meta == meta_again
    assert all(torch.equal(tensors[k], again[k]) for k in tensors)
