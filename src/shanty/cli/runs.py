"""Folders of runs that have a result to work with."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from shanty.cli.folder import default_folder
from shanty.errors import UsageError
from shanty.record.rundir import RunDir
from shanty.spec.codec import nearest


def finished_run(name: str, which: str) -> RunDir:
    """The run in a folder, which must have a ``which`` (best or last) checkpoint.

    Raises:
        UsageError: no such folder, no run in it, or no checkpoint yet.
    """
    root = Path(name).expanduser().resolve()
    rundir = RunDir(root)
    if not root.is_dir():
        beside = [p.name for p in root.parent.iterdir() if p.is_dir()] if _seen(root.parent) else []
        raise UsageError(
            f"there is no folder {name}",
            hint=nearest(root.name, beside) if beside else "check the spelling",
        )
    if not rundir.pointer(which).exists():
        known = [w for w in ("best", "last") if rundir.pointer(w).exists()]
        hint = f"use --which {known[0]}" if known else "give the folder that shanty train wrote"
        raise UsageError(f"{name} holds no {which} checkpoint", hint=hint)
    return rundir


def work_folder(run: RunDir, kind: str) -> RunDir:
    """A new folder for an evaluation or prediction.

    It lies in the run, or in the temp folder where the run is not ours to write to.
    """
    parent = run.root if os.access(run.root, os.W_OK) else Path(tempfile.gettempdir())
    return RunDir(default_folder(kind, parent / f"{kind}s"))


def _seen(folder: Path) -> bool:
    return folder.is_dir()
