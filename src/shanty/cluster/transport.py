"""How the operator reaches a node. One seam: this machine now, others behind the same face."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from shanty.errors import FailedError
from shanty.record.process import ProcessId, alive, identify, send

_START_LIMIT = 15  # seconds

# Set for every Python of ours, whatever the person's shell says.
PYTHON_ENV = {
    "PYTHONSAFEPATH": "1",  # a queue.py in the person's folder must not become ours (3.11 on)
    "PYTHONUTF8": "1",  # names of files and classes survive any locale
    "PYTHONUNBUFFERED": "1",  # a killed process's last words are in its log
}


@dataclass(frozen=True, kw_only=True)
class Result:
    """What a command left; ``code`` is negative for a signal, None when the time was up."""

    code: int | None
    stdout: bytes
    stderr: bytes


class Transport(Protocol):
    """What the operator needs of a node. A call raises FailedError when it is out of reach."""

    def run(self, command: Sequence[str], *, stdin: bytes, limit: float) -> Result:
        """Run a command to its end, or to ``limit`` seconds and then end it."""
        ...

    def start(self, command: Sequence[str], *, log: Path) -> ProcessId:
        """Start a command that outlives the operator; what it prints is appended to ``log``."""
        ...

    def send(self, process: ProcessId, number: int) -> bool:
        """Signal exactly this process; False when it is no longer there."""
        ...

    def alive(self, process: ProcessId) -> bool:
        """True while exactly this process runs."""
        ...


class LocalTransport:
    """This machine as a node."""

    def run(self, command: Sequence[str], *, stdin: bytes, limit: float) -> Result:
        """Run a command to its end; it dies with this process if it asks to (agent.orphan)."""
        env = os.environ | PYTHON_ENV | {"SHANTY_AGENT_PID": str(os.getpid())}
        with _started(command, env, subprocess.PIPE) as process:
            try:
                out, err = process.communicate(stdin, timeout=limit)
            except subprocess.TimeoutExpired:
                out, err = _end(process)
                return Result(code=None, stdout=out, stderr=err)
            except BaseException:  # a Ctrl-C: the command sees no terminal and must be told
                _end(process)
                raise
        return Result(code=process.returncode, stdout=out, stderr=err)

    def start(self, command: Sequence[str], *, log: Path) -> ProcessId:
        """Start a command detached: own session, no terminal, no parent that must reap it."""
        # The shell starts it in the background, says its pid and ends. So it works over SSH too.
        line = '"$@" </dev/null >>"$0" 2>&1 & echo $!'
        env = {n: v for n, v in os.environ.items() if n != "SHANTY_AGENT_PID"} | PYTHON_ENV
        shell = ["/bin/sh", "-c", line, str(log), *command]
        with _started(shell, env, subprocess.DEVNULL) as process:
            try:
                out, _ = process.communicate(timeout=_START_LIMIT)
            except subprocess.TimeoutExpired:
                _end(process)
                raise FailedError(
                    f"no process was started within {_START_LIMIT} s",
                    hint=f"look at the disk that holds {log}",
                ) from None
        if not out.strip().isdigit():
            raise FailedError(f"cannot write {log}", hint="look for a full or read-only disk")
        return identify(int(out)) or _gone(int(out))

    def send(self, process: ProcessId, number: int) -> bool:
        """Signal exactly this process."""
        return send(process, number)

    def alive(self, process: ProcessId) -> bool:
        """True while exactly this process runs."""
        return alive(process)


def _gone(pid: int) -> ProcessId:
    """A process that ended before it could be looked at; it matches none that lives."""
    return ProcessId(pid=pid, start=-1, host=os.uname().nodename, boot="")


def _started(command: Sequence[str], env: dict[str, str], stdin: int) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(  # noqa: S603 - what the operator asks for
            command,
            env=env,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        raise FailedError(
            f"cannot start {command[0]}: {error.strerror}", hint="check the node's python"
        ) from error


def _end(process: subprocess.Popen[bytes]) -> tuple[bytes, bytes]:
    """Kill the command and all it started; what it had printed."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    try:
        return process.communicate(timeout=1)
    except subprocess.TimeoutExpired:  # something left the group and still holds the pipes
        return b"", b""
