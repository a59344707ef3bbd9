"""Checkpoint folders: whole or not there, whatever happens while they are written.

``checkpoints/step-00000480/`` holds safetensors files and ``state.json`` with their sizes and
SHA-256. It is written under a temporary name, every file is flushed to the disk, then the folder
is renamed and its parent flushed. Nothing here is a pickle.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load, save

from shanty import units
from shanty.errors import FailedError, RefusedError
from shanty.record.atomic import TEMP_MARK, sync_dir, write_json
from shanty.record.rundir import RunDir

FORMAT = 1
Tensors = dict[str, torch.Tensor]


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """A complete checkpoint: its folder and its checked ``state.json``."""

    path: Path
    meta: dict[str, Any]

    def tensors(self, name: str) -> Tensors:
        """One of its safetensors files.

        Raises:
            RefusedError: a running training has removed it since it was checked.
        """
        try:
            return load((self.path / name).read_bytes())
        except FileNotFoundError as error:
            raise RefusedError(
                f"{self.path / name} was removed while it was read",
                hint="try again: a training is saving newer checkpoints there",
            ) from error


class BrokenCheckpointError(Exception):
    """A checkpoint that is not whole; the text says why."""


def name_of(step: int) -> str:
    """Folder name of the checkpoint after ``step`` committed steps."""
    return f"step-{step:08d}"


def write(rundir: RunDir, step: int, files: dict[str, Tensors], meta: dict[str, Any]) -> Path:
    """Write one checkpoint and return its folder.

    A complete one of this step that says the same is left as it is. One that says something else
    (the validation had not been done yet) stays, and the new one gets a number behind its name.

    Raises:
        FailedError: the disk is full or not writable; nothing is left behind, older
            checkpoints are untouched.
    """
    final, known = _free_name(rundir.checkpoints / name_of(step), meta)
    if known:
        return final
    temp = _temp_of(final)
    needed = sum(t.numel() * t.element_size() for part in files.values() for t in part.values())
    try:
        if temp.exists():  # of a killed process that had our pid: in a container they repeat
            shutil.rmtree(temp)
        if final.exists():
            _remove(final)
        _write_folder(temp, files, meta)
        temp.rename(final)
        sync_dir(rundir.checkpoints)
    except OSError as error:
        shutil.rmtree(temp, ignore_errors=True)
        raise _cannot_save(rundir.checkpoints, needed, error) from error
    return final


def _free_name(folder: Path, meta: dict[str, Any]) -> tuple[Path, bool]:
    """A folder name to write to, and whether it holds the very state already."""
    for number in count(1):
        name = folder if number == 1 else folder.with_name(f"{folder.name}.{number}")
        try:
            there = verify(name).meta
        except BrokenCheckpointError:
            return name, False
        if there.get("state") == meta.get("state"):
            return name, True
    raise AssertionError("count() does not end")


def _write_folder(folder: Path, files: dict[str, Tensors], meta: dict[str, Any]) -> None:
    folder.mkdir(parents=True)
    listed = {}
    for name, tensors in files.items():
        data = save(_plain(tensors))
        _write_flushed(folder / name, data)
        listed[name] = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    state = {"format": FORMAT, **meta, "files": listed}
    state["seal"] = _seal(state)
    text = json.dumps(state, ensure_ascii=False, indent=1)
    _write_flushed(folder / "state.json", text.encode("utf-8", "surrogateescape"))
    sync_dir(folder)


def _plain(tensors: Tensors) -> Tensors:
    """On the CPU, contiguous, and each for itself: layers may share a weight, files may not."""
    plain: Tensors = {}
    places: set[int] = set()
    for name, tensor in tensors.items():
        copy = tensor.detach().cpu().contiguous()
        plain[name] = copy.clone() if copy.data_ptr() in places else copy
        places.add(copy.data_ptr())
    return plain


def _write_flushed(path: Path, data: bytes) -> None:
    with path.open("xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _seal(state: dict[str, Any]) -> str:
    text = json.dumps({k: v for k, v in state.items() if k != "seal"}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _temp_of(folder: Path) -> Path:
    return folder.with_name(f"{TEMP_MARK}{folder.name}.{os.getpid()}")


def _remove(folder: Path) -> None:
    """Out of sight in one step, then deleted: a reader finds it whole or not at all."""
    gone = _temp_of(folder)
    shutil.rmtree(gone, ignore_errors=True)
    folder.rename(gone)
    shutil.rmtree(gone)


def _cannot_save(folder: Path, needed: int, error: OSError) -> FailedError:
    if error.errno == errno.EFBIG:
        return FailedError(
            f"cannot save to {folder}: a file of this size is not allowed there",
            hint="raise the limit (ulimit -f), or use a file system without one, then --resume",
        )
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        free = shutil.disk_usage(folder).free
        return FailedError(
            f"disk full while saving to {folder}: {needed:,} bytes needed, {free:,} free",
            hint=f"free {units.size(max(needed - free, needed / 10))} or more there, then --resume;"
            " the checkpoints before this one are intact",
        )
    return FailedError(
        f"cannot save to {folder}: {error.strerror}",
        hint="make the folder writable, then --resume",
    )


def verify(folder: Path) -> Checkpoint:
    """Check every byte of a checkpoint.

    Raises:
        BrokenCheckpointError: something is missing, torn or changed.
    """
    try:
        state = json.loads((folder / "state.json").read_bytes().decode("utf-8", "surrogateescape"))
        if state.get("format") != FORMAT or state.get("seal") != _seal(state):
            raise BrokenCheckpointError("state.json was changed or is of another format")
        for name, listed in state["files"].items():
            data = (folder / name).read_bytes()
            if hashlib.sha256(data).hexdigest() != listed["sha256"]:
                raise BrokenCheckpointError(f"{name} does not match its checksum")
    except (OSError, ValueError, KeyError, AttributeError) as error:
        raise BrokenCheckpointError(str(error)) from error
    return Checkpoint(path=folder, meta=state)


def newest(rundir: RunDir) -> tuple[Checkpoint | None, tuple[str, ...]]:
    """The newest complete checkpoint, and a line for every newer one that is not complete."""
    skipped = []
    for folder in sorted(rundir.checkpoints.glob("step-*"), reverse=True):
        try:
            return verify(folder), tuple(skipped)
        except BrokenCheckpointError as error:
            if not folder.exists():  # a running training removed it: it has a newer one now
                return newest(rundir)
            skipped.append(f"{folder.name} is not complete ({error})")
    return None, tuple(skipped)


def named(rundir: RunDir, which: str) -> Checkpoint:
    """The checkpoint that ``best`` or ``last`` points to.

    Raises:
        RefusedError: there is none, or it is broken.
    """
    place = _pointed(rundir, which)
    try:
        return verify(rundir.root / place)
    except BrokenCheckpointError as error:
        if _pointed(rundir, which) != place:  # a running training has a newer one
            return named(rundir, which)
        raise RefusedError(
            f"the {which!r} checkpoint of {rundir.root} is broken: {error}",
            hint="copy the run's folder again, or try --which last",
        ) from error


def _pointed(rundir: RunDir, which: str) -> str:
    try:
        return str(json.loads(rundir.pointer(which).read_bytes())["checkpoint"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RefusedError(
            f"{rundir.root} has no {which!r} checkpoint ({error})",
            hint="train it first, or name a folder that shanty train made",
        ) from error


def point(rundir: RunDir, which: str, folder: Path, facts: dict[str, Any]) -> None:
    """Make ``best`` or ``last`` name this checkpoint."""
    place = folder.relative_to(rundir.root).as_posix()
    write_json(rundir.pointer(which), {"checkpoint": place, **facts})


def prune(rundir: RunDir, keep: int, current: Path) -> None:
    """Remove old checkpoints: ``current`` and those before it up to ``keep``, and the best, stay.

    Later ones than the one just written are left from a start that was resumed from before them:
    broken, or of a future that did not happen. They go, and so do torn temps.
    """
    best = ""
    if rundir.pointer("best").exists():
        best = Path(json.loads(rundir.pointer("best").read_bytes())["checkpoint"]).name
    folders = sorted(rundir.checkpoints.glob("step-*"))
    past = [f for f in folders if f.name <= current.name]
    kept = {best, *(f.name for f in past[-keep:])}
    for folder in folders:
        if folder.name not in kept:
            _remove(folder)
    for temp in rundir.checkpoints.glob(f"{TEMP_MARK}step-*"):
        shutil.rmtree(temp, ignore_errors=True)
    for which in ("best", "last"):
        for temp in rundir.root.glob(f"{TEMP_MARK}{rundir.pointer(which).name}.*"):
            temp.unlink(missing_ok=True)
