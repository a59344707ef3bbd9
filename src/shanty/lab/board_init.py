"""Process 1 of one rehearsal board: it furnishes the board, says so, and holds it until killed.

Standard library only, nothing of shanty: it is run as a file inside fresh namespaces (mount, uts,
ipc, net, pid). On standard input it is given two lines: what to furnish, as JSON, and ``stay``.
When the input ends before ``stay``, whoever builds the lab has died: the board ends too, and with
its process 1 the kernel ends everything on the board.

All that a board has of its own lies on one tmpfs, mounted at the lab's folder. So the machine's
disk is never written to, and nothing has to be removed afterwards.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any


def main() -> int:
    """Furnish, report, hold."""
    spec = json.loads(sys.stdin.readline())
    try:
        furnish(spec)
    except (OSError, subprocess.CalledProcessError) as error:
        said = getattr(error, "stderr", None) or error
        sys.stdout.write(f"error: {' '.join(str(said).split())}\n")
        return 1
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    if sys.stdin.readline().strip() != "stay":
        return 1
    hold()
    return 0


def furnish(spec: dict[str, Any]) -> None:
    """Name, disk, own files under /etc, own /sys; then hide and lock what is the machine's."""
    socket.sethostname(spec["hostname"])
    root = Path(spec["root"])
    mount("-t", "tmpfs", "-o", f"size={spec['disk']},mode=755", "shanty-lab", str(root))
    for number, folder in enumerate(spec["site"]):  # before /tmp is hidden: it may lie there
        show(folder, root / "site" / str(number))
    for file in spec["files"]:
        write(root / file["path"], file, spec)
    for link, target in spec["links"]:
        (root / link).parent.mkdir(parents=True, exist_ok=True)
        (root / link).symlink_to(target)
    for source, target in spec["binds"]:
        if Path(target).exists():  # a container may have no machine-id
            mount("--bind", str(root / source), target)
    mount("-t", "sysfs", "sysfs", "/sys")  # shows this network namespace's interfaces
    if spec["sealed"]:
        seal(root)


def seal(root: Path) -> None:
    """Own /tmp, /run and /dev/shm, and the machine's files for reading only."""
    mount("-t", "tmpfs", "-o", "mode=1777", "shanty-lab", "/dev/shm")  # noqa: S108 - the mount
    mount("-t", "tmpfs", "-o", "mode=1777", "shanty-lab", "/tmp")  # noqa: S108 - the mount itself
    aside = Path("/tmp/lab")  # noqa: S108 - on the board's own /tmp
    aside.mkdir()
    mount("--move", str(root), str(aside))  # the lab's folder lies below /run
    mount("-t", "tmpfs", "-o", "mode=755", "shanty-lab", "/run")
    root.mkdir(parents=True)
    mount("--move", str(aside), str(root))
    aside.rmdir()
    Path("/run/sshd").mkdir(mode=0o755)
    mount("-o", "remount,bind,ro", "/")


def show(folder: str, place: Path) -> None:
    """The machine's folder at another place, for reading only."""
    place.mkdir(parents=True)
    mount("--bind", folder, str(place))
    mount("-o", "remount,bind,ro", str(place))


def write(path: Path, file: dict[str, Any], spec: dict[str, Any]) -> None:
    """One file or folder (text None) of the board, owned by root or by who logs in."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if file["text"] is None:
        path.mkdir()
    else:
        path.write_bytes(file["text"].encode("utf-8", "surrogateescape"))
    path.chmod(file["mode"])
    if file["theirs"]:
        os.chown(path, spec["uid"], spec["gid"])


def mount(*arguments: str) -> None:
    """Mount as the words say; CalledProcessError with what the program said."""
    subprocess.run(  # noqa: S603 - our own words
        ["mount", *arguments],  # noqa: S607 - wherever the system has it
        check=True,
        capture_output=True,
        text=True,
        timeout=30,
    )


def hold() -> None:
    """Wait for ever without a terminal. Orphans of the board are reaped by the kernel."""
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        signal.pause()


if __name__ == "__main__":
    sys.exit(main())
