"""More ends of a run: an exception in one rank, a stop before the first step, a quiet good end."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

from test_whole import FAST, SHANTY, left_over, shanty, wait_for

from crew import events, make_photos
from shanty.record.events import Started, StepDone
from shanty.record.rundir import RunDir

# Loaded by every Python of the run; only rank 1 has a reason to do something.
BOOM = """
import os
if os.environ.get("RANK") == "1" and "SHANTY_STORE" in os.environ:
    import shanty.data.views as views
    real, calls = views.read_train, []
    def read_train(path, view, rng):
        calls.append(path)
        if len(calls) > 40:
            raise ValueError("boom")
        return real(path, view, rng)
    views.read_train = read_train
"""


def test_an_exception_in_one_rank_is_the_cause_and_its_consequences_are_not(tmp_path: Path) -> None:
    make_photos(tmp_path / "photos", {"a": 40, "b": 40})
    (tmp_path / "hook").mkdir()
    (tmp_path / "hook" / "sitecustomize.py").write_text(BOOM)
    start = time.monotonic()
    done = subprocess.run(
        [*SHANTY, "train", "photos", *FAST, "--epochs", "99", "--batch", "16", "--nproc", "2",
         "--out", "run"],
        cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False,
        env=os.environ | {"PYTHONPATH": str(tmp_path / "hook")},
    )  # fmt: skip
    took = time.monotonic() - start
    assert done.returncode == 4, done.stdout + done.stderr
    assert done.stderr.startswith("local rank 1: ValueError: boom (sitecustomize.py:9)")
    assert "crash-0-rank-1.txt" in done.stderr
    assert len(done.stderr.splitlines()) <= 20
    for consequence in ("onnection", "peer", "Traceback", "rank 0"):
        assert consequence not in done.stderr
    assert 'raise ValueError("boom")' in (tmp_path / "run/logs/crash-0-rank-1.txt").read_text()
    assert events(RunDir(tmp_path / "run"), StepDone, rank=0), "it had begun to train"
    assert took < 40
    assert not left_over(tmp_path / "run")


def test_ctrl_c_before_the_first_step_leaves_nothing_and_the_same_command_starts(
    tmp_path: Path,
) -> None:
    make_photos(tmp_path / "photos", {"a": 20, "b": 20})
    command = [*SHANTY, "train", "photos", *FAST, "--epochs", "1", "--nproc", "2", "--out", "run"]
    job = subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    rundir = RunDir(tmp_path / "run")
    wait_for("the agent is there", rundir.agent_pid.exists)
    job.send_signal(signal.SIGINT)
    out, err = job.communicate(timeout=15)
    assert job.returncode == 130, out + err
    assert "Traceback" not in out + err
    assert not left_over(tmp_path / "run")
    assert not rundir.root.exists() or events(rundir, Started)

    again = shanty(*command[1:], "--quiet", cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    assert (again.stdout, again.stderr) == ("", "")
    for log in sorted(rundir.logs.iterdir()):
        assert log.read_text() == "", f"{log.name} of a good run"
