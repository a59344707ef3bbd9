"""Help is quick, complete and light; what it shows as examples can be parsed."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from shanty import __version__

COMMANDS = ("train", "evaluate", "predict", "config", "lab")
HEAVY = ("torch", "torchvision", "timm", "numpy", "PIL", "safetensors")


def shanty(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", "from shanty.cli.main import main; main()", *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
    )


def test_help_names_every_command_and_an_example() -> None:
    done = shanty("--help")
    assert (done.returncode, done.stderr) == (0, "")
    for command in COMMANDS:
        assert re.search(rf"^  {command} +\w", done.stdout, re.MULTILINE)
    assert "shanty train photos" in done.stdout
    assert "completion" not in done.stdout


def test_no_command_shows_the_help() -> None:
    assert shanty().stdout == shanty("--help").stdout


def test_version() -> None:
    done = shanty("--version")
    assert (done.returncode, done.stdout) == (0, f"shanty {__version__}\n")


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_a_command_fits_a_terminal_and_has_two_to_four_examples(command: str) -> None:
    done = shanty(command, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    text, _, examples = done.stdout.partition("Examples:")
    assert 2 <= len(examples.strip().splitlines()) <= 4
    assert all(line.strip().startswith("shanty ") for line in examples.strip().splitlines())
    assert max(map(len, text.splitlines())) <= 80


def test_help_and_config_load_nothing_of_a_node() -> None:
    code = f"""
import sys
from shanty.cli.main import run
assert run(["--help"]) == 0 and run(["train", "--help"]) == 0 and run(["config"]) == 0
loaded = {{name.split(".")[0] for name in sys.modules}}
assert not loaded & set({HEAVY!r}), loaded & set({HEAVY!r})
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_settings_load_nothing_of_a_node() -> None:
    code = f"""
import sys
from shanty.cli.settings import load
load(sets=["optim.lr=0.1"])
loaded = {{name.split(".")[0] for name in sys.modules}}
assert not loaded & set({HEAVY!r}), loaded & set({HEAVY!r})
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def seconds(code: str) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", code, "--help"], capture_output=True, check=True)
    return time.perf_counter() - start


def test_help_takes_under_300_ms_more_than_bare_python() -> None:
    # the best of several: other work on the machine only ever adds time
    bare = min(seconds("pass") for _ in range(5))
    ours = min(seconds("from shanty.cli.main import main; main()") for _ in range(5))
    assert ours - bare < 0.3


def test_config_prints_a_file_that_train_accepts(tmp_path: Path) -> None:
    printed = shanty("config", "--recipe", "finetune")
    assert (printed.returncode, printed.stderr) == (0, "")
    assert '# "# name = value" is chosen automatically' in printed.stdout
    (tmp_path / "run.toml").write_text(printed.stdout, "utf-8")
    done = shanty("train", "nowhere", "--config", "run.toml", cwd=tmp_path)
    assert done.returncode == 2
    assert "there is no folder" in done.stderr  # so every setting before it was accepted
