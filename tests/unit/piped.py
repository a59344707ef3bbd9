"""The probe as a node runs it: piped to a Python that knows nothing of shanty."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from shanty.cluster.probe.text import probe_text, torch_text

VERSIONS = ("3.8", "3.11", "3.13")


def pythons() -> list[str]:
    """This Python, and those of VERSIONS that pyenv has."""
    root = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser() / "versions"
    found = [sorted(root.glob(f"{version}.*/bin/python")) for version in VERSIONS]
    return [sys.executable, *(str(paths[-1]) for paths in found if paths)]


def pipe(
    text: bytes,
    *words: str,
    python: str = sys.executable,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> tuple[dict[str, Any], float]:
    """What the program printed, and the seconds it took."""
    clean = {n: v for n, v in os.environ.items() if not n.startswith(("PYTHON", "SHANTY"))}
    clean |= dict(env or {})
    begun = time.monotonic()
    done = subprocess.run(
        [python, *words],
        input=text,
        cwd=cwd,
        env=clean,
        capture_output=True,
        check=False,
    )
    seconds = time.monotonic() - begun
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout.count(b"\n") == 1, "one line"
    return json.loads(done.stdout), seconds


def probe(*options: str, python: str = sys.executable, **env: str) -> tuple[dict[str, Any], float]:
    """The machine's facts."""
    return pipe(probe_text(), "-", *options, python=python, env=env)


def probe_torch(
    *options: str, python: str = sys.executable, **env: str
) -> tuple[dict[str, Any], float]:
    """What torch is and can."""
    return pipe(torch_text(), "-", *options, python=python, env=env)


def program(folder: Path, name: str, script: str) -> str:
    """A PATH in which ``name`` is this shell script."""
    file = folder / name
    file.write_text(f"#!/bin/sh\n{script}\n", "utf-8")
    file.chmod(0o755)
    return f"{folder}:{os.environ['PATH']}"
