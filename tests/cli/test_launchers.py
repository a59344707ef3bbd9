"""A worker finds its rank and joins, whoever started it: torchrun, mpirun, or nobody."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from crew import events, make_photos, prepare
from shanty.record.events import Ended, Started, StepDone
from shanty.record.rundir import RunDir
from shanty.spec.config import DataConfig, ModelConfig, RunConfig

WORKER = ["-m", "shanty.train.worker"]


@pytest.fixture
def rundir(tmp_path: Path) -> RunDir:
    photos = make_photos(tmp_path / "photos", {"a": 20, "b": 16})
    config = RunConfig(
        epochs=1, batch=8, model=ModelConfig(name="test_convnext"), data=DataConfig(size=32)
    )
    return prepare(photos, tmp_path / "run", config)


def start(command: list[str], **extra: str) -> subprocess.CompletedProcess[str]:
    stale = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
    environ = {k: v for k, v in os.environ.items() if k not in stale} | extra
    return subprocess.run(
        command, env=environ, capture_output=True, text=True, timeout=150, check=False
    )


def check_joined(rundir: RunDir, ranks: int) -> None:
    assert sorted(e.rank for e in events(rundir, Started)) == list(range(ranks))
    assert {e.body.world_size for e in events(rundir, Started)} == {ranks}
    assert [e.body.exit_code for e in events(rundir, Ended)] == [0] * ranks
    losses = [[e.body.loss for e in events(rundir, StepDone, rank=r)] for r in range(ranks)]
    assert len(losses[0]) == 4
    assert all(own == losses[0] for own in losses)


def test_torchrun(rundir: RunDir) -> None:
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    done = start([*torchrun, "--nproc-per-node", "2", *WORKER, str(rundir.spec)])
    assert done.returncode == 0, done.stderr
    check_joined(rundir, 2)


def test_mpirun_wins_over_a_rank_exported_by_hand(rundir: RunDir) -> None:
    mpirun = shutil.which("mpirun")
    if mpirun is None:
        pytest.skip("mpirun is not installed (Debian package openmpi-bin)")
    command = [mpirun, "-n", "2", "--oversubscribe", "--allow-run-as-root", "--bind-to", "none"]
    done = start(
        [*command, sys.executable, *WORKER, str(rundir.spec)],
        RANK="0", WORLD_SIZE="1", OMPI_MCA_btl="self,vader", OMPI_MCA_oob_tcp_if_include="lo",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    check_joined(rundir, 2)


def test_by_hand_it_is_one_rank(rundir: RunDir) -> None:
    done = start([sys.executable, *WORKER, str(rundir.spec)])
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    check_joined(rundir, 1)


def test_a_missing_order_says_how_to_make_one(tmp_path: Path) -> None:
    done = start([sys.executable, *WORKER, str(tmp_path / "run.json")])
    assert done.returncode == 2
    assert "shanty train DATA --out DIR --prepare" in done.stderr
    assert "Traceback" not in done.stderr
