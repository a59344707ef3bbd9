"""The way to a node: this machine itself, or ssh."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

from shanty.cluster.ssh import SshTransport
from shanty.cluster.transport import LocalTransport, Transport
from shanty.spec.cluster import Node

# The path of a Unix socket has at most 104 bytes on macOS: the folder, a slash, the 40 letters of
# ssh's %C, and 17 that ssh appends while it makes one.
_LONGEST = 104 - 1 - 40 - 17


def reach(node: Node, config: str = "") -> Transport:
    """The way to a node: this machine itself, or ssh with a shared connection."""
    if node.is_local:
        return LocalTransport()
    return SshTransport(node, config=config, control=control_folder())


def control_folder() -> Path | None:
    """A short folder of ours that nobody else can enter; None where there is none."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    for folder in (Path(runtime or "/nowhere") / "shanty", Path(f"/tmp/shanty-{os.getuid()}")):  # noqa: S108 - proven private below
        if len(os.fsencode(folder)) <= _LONGEST and _private(folder):
            return folder
    return None


def _private(folder: Path) -> bool:
    """Make the folder where it is missing; True when it is a real one, ours alone."""
    try:
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        found = folder.lstat()
    except OSError:
        return False
    ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()
    return ours and stat.S_IMODE(found.st_mode) == 0o700
