"""The run's folder: where it lies, whether it is free, and taking it away again."""

from __future__ import annotations

import re
import shutil
import time
from pathlib import Path

from shanty.errors import UsageError
from shanty.record.rundir import RunDir


def default_folder(name: str, parent: Path) -> Path:
    """A free ``parent/NAME-YYYYmmdd-HHMMSS``."""
    word = re.sub(r"[^\w.\-]+", "-", name).strip("-.") or "run"
    first = parent / f"{word}-{time.strftime('%Y%m%d-%H%M%S')}"
    numbered = (first.with_name(f"{first.name}-{n}") for n in range(2, 1000))
    return next((p for p in (first, *numbered) if not p.exists()), first)


def check_free(folder: Path) -> None:
    """Raise UsageError where a new run cannot begin in ``folder``."""
    if RunDir(folder).exists():
        raise UsageError(
            f"a run exists in {folder}",
            hint=f"continue it: shanty train --resume {folder}; or choose another --out",
        )
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is a file, not a folder", hint="choose another --out")
    if folder.is_dir() and any(folder.iterdir()):
        raise UsageError(
            f"{folder} is not empty and holds no run", hint="choose a new or empty folder as --out"
        )


def check_outside(folder: Path, data: Path) -> None:
    """Raise UsageError for a run inside the images: its files would be taken for classes."""
    inner, outer = folder.resolve(), data.resolve()
    if outer == inner or outer in inner.parents:
        raise UsageError(
            f"the run's folder {folder} would lie inside the images {data}",
            hint="choose a folder elsewhere: --out DIR",
        )


def create(rundir: RunDir) -> None:
    """Make the run's folder with its parts.

    Raises:
        UsageError: it cannot be written there.
    """
    try:
        rundir.make()
        probe = rundir.root / ".writable"
        probe.write_bytes(b"")
        probe.unlink()
    except OSError as error:
        raise UsageError(
            f"cannot write to {rundir.root}: {error.strerror}",
            hint="choose a folder you may write to: --out DIR",
        ) from error


def remove(rundir: RunDir) -> bool:
    """Take away a run's folder that holds no checkpoint; False: it has one, and stays."""
    if rundir.pointer("last").exists():
        return False
    shutil.rmtree(rundir.root, ignore_errors=True)
    return True


def shown(folder: Path) -> str:
    """The folder as a person would type it: relative when it lies below the current one."""
    try:
        return str(folder.resolve().relative_to(Path.cwd())) or "."
    except ValueError:
        return str(folder)
