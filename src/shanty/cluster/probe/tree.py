"""What the probe reads from: this machine's files and programs, or a recorded tree of them.

A recorded tree has the machine's files below its root, and what programs printed in
``commands/PROGRAM``.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

COMMAND_LIMIT = 1.3


class Tree:
    """The files and programs of this machine, or of a recorded one."""

    def __init__(self, root: Path, workdir: Path) -> None:
        self.root, self.workdir, self.live = root, workdir, root == Path("/")
        self.problems: dict[str, str] = {}

    def find(self, pattern: str) -> list[Path]:
        """Paths below the root, sorted."""
        return sorted(self.root.glob(pattern))

    def text(self, name: str) -> str | None:
        """A file below the root."""
        return text(self.root / name)

    def said(self, program: str, *options: str) -> str | None:
        """What a program printed; None when it is absent, fails or takes too long."""
        if not self.live:
            return self.text("commands/" + program)
        path = shutil.which(
            program, path=os.environ.get("PATH", "") + ":/usr/sbin:/usr/lib/wsl/lib"
        )
        if path is None:
            return None
        try:
            done = subprocess.run(  # noqa: S603 - programs named in this file
                [path, *options], timeout=COMMAND_LIMIT, check=False, text=True, errors="replace",
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired) as error:
            self.problems[program] = str(error)
            return None
        if done.returncode:
            self.problems[program] = done.stdout.strip()[-300:] or f"exit {done.returncode}"
        return None if done.returncode else done.stdout


def text(path: Path) -> str | None:
    """A file without blanks and NULs around it; None when it cannot be read."""
    try:
        return path.read_bytes().decode("utf-8", "replace").strip("\0 \n\t")
    except OSError:  # absent, or the kernel refuses: an interface that is down has no speed
        return None


def number(path: Path) -> int | None:
    """A file that holds one whole number; None otherwise."""
    found = re.match(r"-?\d+$", text(path) or "")
    return int(found.group()) if found else None
