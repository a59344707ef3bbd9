"""Processes that write checkpoints, to be killed, limited and read beside."""

from __future__ import annotations

import os
import resource
import signal
import sys
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

import torch

from shanty.errors import FailedError
from shanty.record.rundir import RunDir
from shanty.train import checkpoint
from shanty.train.checkpoint import Checkpoint, Tensors

WORDS = 20_000  # values in one tensor
_TOUCHES = ("open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.unlink", "os.scandir")


def start(target: Any, *args: Any) -> tuple[ForkServerProcess, Connection]:
    """``target(pipe, *args)`` in a process of its own, and our end of its pipe."""
    context = get_context("forkserver")
    context.set_forkserver_preload(["torch", "shanty.train.checkpoint"])
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=target, args=(theirs, *args), daemon=True)
    process.start()
    theirs.close()
    return process, ours


def files_of(step: int) -> dict[str, Tensors]:
    """A checkpoint's files whose every value is its step."""
    return {
        "model.safetensors": {"a": torch.full((WORDS,), step), "b": torch.tensor(float(step))},
        "train.safetensors": {"optim.a.moment": torch.full((WORDS,), float(step))},
    }


def make_run(root: Path) -> RunDir:
    """An empty run's folder."""
    rundir = RunDir(root)
    rundir.make()
    return rundir


def save(rundir: RunDir, step: int, keep: int = 1) -> Path:
    """What the saver does: write, point, prune. Every third one is the best so far."""
    folder = checkpoint.write(rundir, step, files_of(step), {"step": step})
    for which in ("best", "last") if step % 3 == 1 else ("last",):
        checkpoint.point(rundir, which, folder, {"step": step})
    checkpoint.prune(rundir, keep, folder)
    return folder


def step_of(saved: Checkpoint) -> int:
    """The checkpoint's step, after a look at every value in it."""
    step = int(saved.meta["step"])
    for name, tensors in files_of(step).items():
        found = saved.tensors(name)
        assert found.keys() == tensors.keys()
        assert all(torch.equal(found[k], t) for k, t in tensors.items())
    return step


def save_until(pipe: Connection, root: Path, first: int, last: int) -> None:
    """Save ``first`` to ``last``, telling each step when it is done."""
    for step in range(first, last + 1):
        save(RunDir(root), step)
        pipe.send(step)


def save_and_die(pipe: Connection, root: Path, step: int, touch: int) -> None:
    """Save once, but end by SIGKILL just before the ``touch``-th use of the run's folder."""
    left = touch

    def count(name: str, args: tuple[Any, ...]) -> None:
        nonlocal left
        if name in _TOUCHES and str(root) in str(args[0]):
            left -= 1
            if left < 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(count)
    save(RunDir(root), step)
    pipe.send(step)


def save_with_limit(pipe: Connection, root: Path, step: int, most: int) -> None:
    """Save where no file may be larger than ``most`` bytes; sends the error, or None."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    try:
        save(RunDir(root), step)
    except FailedError as error:
        pipe.send(error.to_dict())
    else:
        pipe.send(None)
