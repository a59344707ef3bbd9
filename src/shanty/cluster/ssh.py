"""A node behind the system's own OpenSSH client, with the same face as this machine.

The person's config, agent and jump hosts are honoured. One connection is shared by all calls where
ssh can do that (ControlMaster), and everything works where it cannot. Source: ssh_config(5).
"""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import tempfile
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from shanty.cluster import ssh_line
from shanty.cluster.ssh_trouble import Trouble, diagnose, lost, no_answer, no_shell
from shanty.cluster.transport import PYTHON_ENV, Result
from shanty.errors import FailedError, RefusedError
from shanty.record.process import ProcessId, from_stat
from shanty.spec.cluster import Node

# Seconds until a node that cannot be reached is named; ssh's own limit of 10 comes first, but a
# jump host knows nothing of it.
REACH = 14.0
_SHORT = 20.0  # for a call that only looks, or signals
_KEEP = "ControlPersist=120"  # so that the next command of the person's is quick as well


@dataclass
class _Link:
    """What the calls of one node share: whether it was reached, and the folder of the sockets."""

    control: Path | None
    reached: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)


class SshTransport:
    """A node over ssh. Safe to use from several threads; nothing is dialled before it is needed.

    Args:
        node: address, user, port and name.
        config: a config file for ssh instead of the person's own.
        control: folder of the shared connection's socket; None: each call connects anew.
        env: variables for every command.
    """

    def __init__(
        self,
        node: Node,
        *,
        config: str = "",
        control: Path | None = None,
        env: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.node = node
        self._config = config
        self._env = PYTHON_ENV | dict(env)
        self._link = _Link(control=control)

    def using(self, env: Mapping[str, str]) -> SshTransport:
        """The same node over the same connection, with more variables for every command."""
        other = SshTransport(self.node, config=self._config, env={**self._env, **env})
        other._link = self._link
        return other

    def trouble(self) -> Trouble | None:
        """Reach the node; what is wrong, or None. At most 15 seconds."""
        with self._link.lock:
            if self._link.reached:
                return None
            found = self._dial()
            if found is not None and found.kind == "other" and self._link.control is not None:
                self._link.control = None  # no sockets here: a connection per call will do
                found = self._dial()
            self._link.reached = found is None
            return found

    def connect(self) -> None:
        """Reach the node.

        Raises:
            RefusedError: it is out of reach; the fix is a command to run.
        """
        if found := self.trouble():
            raise RefusedError(found.what, hint=found.fix, node=self.node.name)

    def close(self) -> None:
        """End the shared connection now; without this call it ends two minutes after its use."""
        if self._link.control is not None:
            login, port = self.node.login, self.node.port
            words = ssh_line.arguments(self._shared("no"), login, port, self._config)
            with self._link.lock, suppress(subprocess.TimeoutExpired):
                subprocess.run(  # noqa: S603 - our own words
                    [*words[:1], "-O", "exit", *words[1:]],
                    capture_output=True,
                    timeout=5,
                    check=False,
                )
                self._link.reached = False

    def run(self, command: Sequence[str], *, stdin: bytes, limit: float) -> Result:
        """Run a command to its end; when ``limit`` is over, it and all it started is ended.

        Raises:
            RefusedError: the node is out of reach.
            FailedError: the connection was lost, or the node has no such program.
        """
        self.connect()
        nonce = _nonce()
        text = ssh_line.line(nonce, command, self._env, limit) + stdin
        with self._ssh(self._shared("no")) as process:
            try:
                out, err = process.communicate(text, timeout=limit)
            except subprocess.TimeoutExpired:
                out, err = self._end(nonce, process)
                back = ssh_line.answer(nonce, out, err)
                return Result(code=None, stdout=back.stdout, stderr=back.stderr)
            except BaseException:  # a Ctrl-C: the node sees no terminal and must be told
                self._end(nonce, process)
                raise
        return self._result(command, ssh_line.answer(nonce, out, err), process.returncode)

    def start(self, command: Sequence[str], *, log: Path) -> ProcessId:
        """Start a command in a session of its own; ``log`` is an absolute path on the node."""
        words = ["/bin/sh", "-c", ssh_line.START, "sh", str(log), *command]
        result = self.run(words, stdin=b"", limit=_SHORT)
        told = result.stdout.decode("utf-8", "replace").split("\n", 3)
        if told[0] == "none":
            raise self._not_found(command)
        if len(told) < 4 or not told[0].isdigit():
            hint = "look for a missing folder, or a full or read-only disk"
            raise FailedError(f"cannot write {log}", hint=hint, node=self.node.name)
        pid, host, boot, status = told
        gone = ProcessId(pid=int(pid), start=-1, host=host, boot="")
        return from_stat(int(pid), status, host=host, boot=boot) or gone

    def send(self, process: ProcessId, number: int) -> bool:
        """Signal exactly this process of the node; False when it is no longer there."""
        who = [str(process.pid), str(process.start), process.host, process.boot]
        words = ["/bin/sh", "-c", ssh_line.SEND, "sh", *who, f"{number:d}"]
        return self.run(words, stdin=b"", limit=_SHORT).stdout.strip() == b"yes"

    def alive(self, process: ProcessId) -> bool:
        """True while exactly this process runs on the node."""
        return self.send(process, 0)

    def _dial(self) -> Trouble | None:
        """Connect, and leave the shared connection behind where there can be one."""
        nonce = _nonce()
        # ssh leaves a process behind that may hold these open, so they are files and no pipes.
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            try:
                process = self._ssh(self._shared("auto"), out.fileno(), err.fileno())
            except FailedError as error:
                return Trouble(kind="no ssh", what=error.what, fix=error.hint)
            late = False
            try:
                process.communicate(ssh_line.line(nonce, ["true"], {}, REACH), timeout=REACH)
            except subprocess.TimeoutExpired:
                late = True
            finally:
                _kill(process)
            back = ssh_line.answer(nonce, _content(out.fileno()), _content(err.fileno()))
        return self._judged(back, process.returncode, late=late)

    def _judged(self, back: ssh_line.Answer, code: int, *, late: bool) -> Trouble | None:
        said = back.stderr.decode("utf-8", "replace")
        if back.begun:
            return None
        if late:
            return no_answer(self.node, REACH, said)
        if code == 255:
            return diagnose(said, self.node, self._config)
        noise = back.stdout.decode("utf-8", "replace")
        return no_shell(self.node, f"{noise}\n{said}", self._config)

    def _result(self, command: Sequence[str], back: ssh_line.Answer, code: int) -> Result:
        if back.missing:
            raise self._not_found(command)
        if back.code is not None:
            return Result(code=back.code, stdout=back.stdout, stderr=back.stderr)
        if code != 255:  # the shell itself was ended; what ssh says is all there is
            return Result(code=code, stdout=back.stdout, stderr=back.stderr)
        self._link.reached = False
        found = lost(back.stderr.decode("utf-8", "replace"), self.node, self._config)
        raise FailedError(found.what, hint=found.fix, node=self.node.name)

    def _not_found(self, command: Sequence[str]) -> FailedError:
        hint = "check the node's python in the cluster file"
        return FailedError(f"there is no {command[0]}", hint=hint, node=self.node.name)

    def _end(self, nonce: str, process: subprocess.Popen[bytes]) -> tuple[bytes, bytes]:
        """End on the node what carries the nonce, then our ssh; what had come back."""
        with suppress(FailedError, RefusedError, subprocess.TimeoutExpired):
            words = ["/bin/sh", "-c", ssh_line.END, "sh", nonce]
            with self._ssh(self._shared("no")) as ender:
                try:
                    ender.communicate(ssh_line.line(_nonce(), words, {}, 5), timeout=5)
                finally:
                    _kill(ender)
        try:
            return process.communicate(timeout=1)
        except subprocess.TimeoutExpired:
            _kill(process)
            return process.communicate()

    def _shared(self, master: str) -> list[str]:
        if self._link.control is None:
            return ["ControlMaster=no"]  # a shared one of the person's own would hold our pipes
        path = f"ControlPath={self._link.control}/%C"
        return [f"ControlMaster={master}", _KEEP, path]

    def _ssh(
        self, options: list[str], out: int = subprocess.PIPE, err: int = subprocess.PIPE
    ) -> subprocess.Popen[bytes]:
        words = ssh_line.arguments(options, self.node.login, self.node.port, self._config)
        # No terminal and no window may ask for anything, also not for a jump host.
        env = {**os.environ, "SSH_ASKPASS_REQUIRE": "never", "SSH_ASKPASS": "/bin/false"}
        try:
            return subprocess.Popen(  # noqa: S603 - our own words
                words, env=env, stdin=subprocess.PIPE, stdout=out, stderr=err,
                start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            what, hint = f"cannot start ssh: {error.strerror}", "apt-get install openssh-client"
            raise FailedError(what, hint=hint, node=self.node.name) from error


def _nonce() -> str:
    return f"shanty-{secrets.token_hex(12)}"


def _content(handle: int) -> bytes:
    size = os.fstat(handle).st_size
    return os.pread(handle, size, 0)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End our ssh if it still runs, with what it started (a jump host's ssh)."""
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
