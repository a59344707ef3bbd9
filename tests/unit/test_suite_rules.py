"""The suite's own rules, shown by running pytest on a scratch suite with our conftest."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from reach import needs_torch, reached

TESTS = Path(__file__).resolve().parents[1]


def run_suite(folder: Path, *options: str, ci: bool) -> subprocess.CompletedProcess[str]:
    for name in ("conftest.py", "reach.py"):
        shutil.copy(TESTS / name, folder)
    environment = {k: v for k, v in os.environ.items() if k != "CI"} | (
        {"CI": "true"} if ci else {}
    )
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", f"--rootdir={folder}"]
    return subprocess.run(
        [*command, *options, str(folder)],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
        cwd=folder,
    )


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")


@pytest.mark.parametrize(("ci", "code"), [(True, 1), (False, 0)])
def test_a_skipped_test_fails_in_ci_only(tmp_path: Path, ci: bool, code: int) -> None:
    write(
        tmp_path / "test_x.py",
        "import pytest\ndef test_a(): pass\ndef test_b(): pytest.skip('no such thing here')\n",
    )
    done = run_suite(tmp_path, ci=ci)
    assert done.returncode == code, done.stdout + done.stderr
    assert "1 passed, 1 skipped" in done.stdout
    assert ("test_x.py::test_b" in done.stdout) == ci


def test_no_skip_passes_in_ci(tmp_path: Path) -> None:
    write(tmp_path / "test_x.py", "def test_a(): pass\n")
    assert run_suite(tmp_path, ci=True).returncode == 0


def test_torch_free_leaves_out_what_reaches_torch(tmp_path: Path) -> None:
    write(tmp_path / "unit" / "test_plain.py", "def test_a(): pass\n")
    write(tmp_path / "unit" / "test_torch.py", "import torch\ndef test_b(): pass\n")
    write(tmp_path / "unit" / "test_far.py", "import rig\ndef test_c(): pass\n")
    write(tmp_path / "unit" / "rig.py", "def f():\n    from PIL import Image\n    return Image\n")
    write(tmp_path / "ranks" / "test_d.py", "def test_d(): pass\n")
    done = run_suite(tmp_path, "--torch-free", "-v", ci=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "test_plain.py::test_a PASSED" in done.stdout
    assert "1 passed" in done.stdout


def test_reach_follows_our_modules(tmp_path: Path) -> None:
    write(tmp_path / "a.py", "from shanty.record.events import Event\n")
    assert {"json", "time"} <= reached(tmp_path / "a.py")
    assert not needs_torch(tmp_path / "a.py")
