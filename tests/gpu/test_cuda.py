"""The GPU path: deselected where there is no GPU. Not yet run on hardware."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from crew import events, make_photos, prepare, start_ranks, train_rank
from shanty.comm.place import Place
from shanty.comm.world import join, pick_device
from shanty.errors import RefusedError
from shanty.record.events import Validated
from shanty.spec.config import DataConfig, ModelConfig, PrecisionConfig, RunConfig
from shanty.train.precision import pick_precision

pytestmark = pytest.mark.gpu


def place(rank: int, size: int) -> Place:
    return Place(
        rank=rank, world_size=size, local_rank=rank, local_world_size=size,
        node="local", launcher="test", store="",
    )  # fmt: skip


@pytest.mark.parametrize("amp", ["off", "bf16", "fp16"])
def test_training_learns_in_every_precision(tmp_path: Path, amp: Any) -> None:
    photos = make_photos(tmp_path / "photos", {"a": 60, "b": 60})
    config = RunConfig(
        epochs=5,
        batch=16,
        device="cuda",
        model=ModelConfig(name="test_resnet"),
        data=DataConfig(size=32),
        precision=PrecisionConfig(amp=amp),
    )
    rundir = prepare(photos, tmp_path / "run", config)
    start_ranks(1, train_rank, rundir.root, 0)
    assert events(rundir, Validated)[-1].body.accuracy > 0.9


def test_auto_precision_is_mixed_and_channels_last() -> None:
    found = pick_precision(PrecisionConfig(), torch.device("cuda", 0))
    assert found.amp in ("bf16", "fp16")
    assert found.channels_last


def test_more_ranks_than_gpus_are_refused() -> None:
    count = torch.cuda.device_count()
    with pytest.raises(RefusedError, match=str(count)):
        pick_device(place(0, count + 1), "cuda")


def sum_on_gpu(place: Place) -> tuple[str, float]:
    world = join(place, device="cuda", timeout=60)
    tensor = torch.ones(1, device=world.device)
    torch.distributed.all_reduce(tensor)
    result = float(tensor)
    world.leave()
    return world.backend, result


def test_nccl_adds_over_all_gpus() -> None:
    count = torch.cuda.device_count()
    if count < 2:
        pytest.skip("needs two GPUs")
    assert start_ranks(count, sum_on_gpu) == [("nccl", float(count))] * count
