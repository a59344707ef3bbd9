"""benchmarks/measure.py: rates from steps, and memory of real process trees."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from measure import Step, steady_rate

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"

# Holds 64 MiB for a second in a process whose parent has already ended.
ORPHAN = """
import subprocess, sys
hold = "x = bytearray(64 << 20); x[::4096] = b'1' * len(x[::4096]); import time; time.sleep(1)"
subprocess.Popen([sys.executable, "-c", hold])
print("parent ends")
"""


def epoch(number: int, start: float, first: int, seconds: float = 0.5) -> list[Step]:
    """Ten steps of ``seconds`` each, after a first one that took ten seconds."""
    times = [start, *(start + 10 + seconds * i for i in range(9))]
    return [Step(t=t, epoch=number, number=first + i) for i, t in enumerate(times)]


def test_the_rate_leaves_out_start_up_and_what_lies_between_epochs() -> None:
    steps = epoch(0, start=0, first=0) + epoch(1, start=1000, first=10)
    assert steady_rate(steps, batch=32, skip=2) == pytest.approx(64)


def test_the_rate_is_right_when_only_some_steps_were_written() -> None:
    steps = [step for step in epoch(0, start=0, first=0) if step.number % 2 == 1]
    assert steady_rate(steps, batch=32, skip=1) == pytest.approx(64)


def test_too_few_steps_are_refused() -> None:
    with pytest.raises(ValueError, match="no epoch has more than 7 steps"):
        steady_rate(epoch(0, start=0, first=0)[:6], batch=32, skip=5)


def run_measured(folder: Path, code: str) -> dict[str, str | int]:
    """Measure ``code`` in a process of its own: adopting orphans changes the one that asks."""
    outer = (
        "import json, sys, pathlib\n"
        "from measure import adopt_orphans, run\n"
        "adopt_orphans(); here = pathlib.Path(sys.argv[1])\n"
        "ran = run([sys.executable, '-c', sys.argv[2]], here / 'log', sampled=True, cwd=here)\n"
        "print(json.dumps({'peak': ran.peak, 'output': ran.output}))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", outer, str(folder), code],
        capture_output=True,
        text=True,
        check=False,
        cwd=BENCHMARKS,
    )
    assert done.returncode == 0, done.stderr
    result: dict[str, str | int] = json.loads(done.stdout)
    return result


def test_memory_of_a_process_whose_parent_has_ended_is_counted(tmp_path: Path) -> None:
    ran = run_measured(tmp_path, ORPHAN)
    assert ran["output"] == "parent ends\n"
    assert 64 << 20 < int(ran["peak"]) < 128 << 20
