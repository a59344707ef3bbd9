"""Rehearsal boards as a test uses them: everything goes through the command ``shanty lab``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

SHANTY = (sys.executable, "-c", "from shanty.cli.main import main; main()")
MARK = "SHANTY_TEST_DESK"  # in the environment of all that a test starts, so that leftovers show
Done = subprocess.CompletedProcess[str]


@dataclass(frozen=True, kw_only=True)
class Desk:
    """A lab of this name, whether it stands or not."""

    name: str

    @property
    def folder(self) -> Path:
        return Path("/run/shanty-lab") / self.name

    def lab(self, word: str, *arguments: str) -> Done:
        """One ``shanty lab`` command."""
        return run(*SHANTY, "lab", word, "--name", self.name, *arguments, mark=self.name)

    def ok(self, word: str, *arguments: str) -> str:
        """One ``shanty lab`` command that must succeed; what it printed."""
        done = self.lab(word, *arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def start(self, word: str, *arguments: str) -> subprocess.Popen[str]:
        """One ``shanty lab`` command in the background."""
        return subprocess.Popen(
            [*SHANTY, "lab", word, "--name", self.name, *arguments],
            env=os.environ | {MARK: self.name},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def on(self, node: str, *words: str) -> Done:
        """A command on a board, or on ``op``, without ssh."""
        return self.lab("exec", node, "--", *words)

    def ssh(self, node: str, command: str) -> Done:
        """A command on a board, from the operator's place and over ssh."""
        return self.on("op", "ssh", node, command)

    def ping(self, node: str, address: str) -> bool:
        return self.on(node, "ping", "-c1", "-W1", address).returncode == 0

    def put(self, source: Path, node: str, place: str) -> None:
        """Copy a file or folder into a board's HOME."""
        tar = subprocess.run(["tar", "-C", str(source), "-c", "."], capture_output=True, check=True)
        unpack = f'mkdir -p "$HOME/{place}" && tar -C "$HOME/{place}" -x'
        command = [*SHANTY, "lab", "exec", "--name", self.name, node, "--", "sh", "-c", unpack]
        subprocess.run(command, input=tar.stdout, check=True, capture_output=True)

    def state(self) -> dict[str, object]:
        return json.loads((self.folder / "lab.json").read_text())

    def leftovers(self) -> list[str]:
        """What is still there of the lab: files, mounts, and processes with their namespaces."""
        found = [str(self.folder)] if self.folder.exists() else []
        if str(self.folder) in Path("/proc/self/mountinfo").read_text():
            found.append("a mount")
        return found + [pid for pid in living() if self._ours(pid)]

    def _ours(self, pid: str) -> bool:
        try:
            started = f"{MARK}={self.name}".encode() in Path(f"/proc/{pid}/environ").read_bytes()
            return started or str(self.folder) in Path(f"/proc/{pid}/mountinfo").read_text()
        except OSError:
            return False


def run(*command: str, mark: str = "") -> Done:
    return subprocess.run(
        command,
        env=os.environ | {MARK: mark},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def living() -> list[str]:
    """Pids of all processes but this one."""
    pids = [folder.name for folder in Path("/proc").glob("[0-9]*")]
    return [pid for pid in pids if pid != str(os.getpid())]


def within(seconds: float, true: Callable[[], bool]) -> bool:
    """Whether something becomes true in time."""
    end = time.monotonic() + seconds
    while not true():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True
