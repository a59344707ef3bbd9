"""Starting and ending the process that holds a host, so that no crash leaves one unrecorded.

The process waits at a gate until it has been written down; its input is a pipe from us until the
host is whole. If we die before that, it ends by itself. After that, it is on record.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from shanty.errors import FailedError
from shanty.lab import board_init
from shanty.record.process import ProcessId, identify, send

_GATE = 'read -r go && exec "$@"'  # reads no byte beyond the first line


class Gate:
    """A holder that has been started and waits for ``open``, then for ``stay``."""

    def __init__(self, node: str, log: Path) -> None:
        self._node = node
        with log.open("ab") as errors:
            self._process = subprocess.Popen(  # noqa: S603 - our own file
                ["/bin/sh", "-c", _GATE, "shanty-lab", *_holder()],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
                cwd="/",
            )
        found = identify(self._process.pid)
        if found is None:
            raise FailedError("its holder ended at once", node=node, hint=f"look into {log}")
        self.process = found

    def open(self, spec: dict[str, Any]) -> int:
        """Let it make its namespaces and furnish them; the pid of the host's process 1."""
        self._tell("go\n" + json.dumps(spec) + "\n")
        said = self._hear(20)
        if said != "ready":
            raise FailedError(
                f"cannot be made: {said or 'its process 1 ended'}",
                node=self._node,
                hint="a container must allow namespaces and mounts (docker run --privileged)",
            )
        return init_of(self.process) or self._lost()

    def stay(self) -> None:
        """From now on the host outlives us."""
        self._tell("stay\n")
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()
        self._process.returncode = 0  # it is not ours to wait for any more

    def _lost(self) -> int:
        raise FailedError("its process 1 ended", node=self._node, hint="try again: shanty lab up")

    def _tell(self, text: str) -> None:
        pipe = self._process.stdin
        if pipe is None:
            self._lost()
            return
        try:
            pipe.write(text.encode())
            pipe.flush()
        except BrokenPipeError:
            self._lost()

    def _hear(self, limit: float) -> str:
        pipe = self._process.stdout
        if pipe is None or not select.select([pipe], [], [], limit)[0]:
            return f"no answer within {limit:.0f} s"
        return pipe.readline().decode(errors="replace").strip()


def _holder() -> list[str]:
    """``unshare`` waits for the host's process 1 and takes it along when it is killed."""
    namespaces = ["--mount", "--uts", "--ipc", "--net", "--pid"]
    python = [sys.executable, "-I", str(Path(board_init.__file__).resolve())]
    return ["unshare", *namespaces, "--fork", "--kill-child", "--mount-proc", *python]


def init_of(holder: ProcessId) -> int | None:
    """The pid of the host's process 1, as this machine sees it; None when the host is gone."""
    if not runs(holder):
        return None
    for folder in Path("/proc").glob("[0-9]*"):
        if _parent(folder) == holder.pid:
            return int(folder.name)
    return None


def _parent(folder: Path) -> int:
    try:
        return int((folder / "stat").read_text(errors="replace").rpartition(")")[2].split()[1])
    except (OSError, IndexError, ValueError):
        return -1


def runs(holder: ProcessId) -> bool:
    """True while exactly this process runs, whatever the machine is called by now."""
    return identify(holder.pid) == _here(holder)


def end(holders: list[ProcessId]) -> int:
    """Kill these processes and wait until their hosts are gone; how many were alive.

    Raises:
        FailedError: a host is still there after 15 s.
    """
    living = [holder for holder in holders if runs(holder)]
    inits = [identify(pid) for pid in map(init_of, living) if pid is not None]
    for holder in living:
        send(_here(holder), signal.SIGKILL)
    gone = [*map(_here, living), *(init for init in inits if init is not None)]
    if not wait_until(lambda: not any(identify(p.pid) == p for p in gone), 15):
        raise FailedError(
            "a board does not end", hint="a process there waits for a disk; try again in a minute"
        )
    return len(living)


def wait_until(true: Callable[[], bool], limit: float) -> bool:
    """Whether something becomes true within ``limit`` seconds."""
    stop = time.monotonic() + limit
    while not true():
        if time.monotonic() > stop:
            return False
        time.sleep(0.02)
    return True


def _here(process: ProcessId) -> ProcessId:
    return replace(process, host=os.uname().nodename)
