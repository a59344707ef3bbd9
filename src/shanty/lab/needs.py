"""What a lab needs of the machine: root, Linux and a few programs; else the line that helps."""

from __future__ import annotations

import os
import pwd
import shlex
import shutil
import sys
from pathlib import Path

from shanty.errors import RefusedError
from shanty.lab.state import Login

_SBIN = ("/usr/local/sbin", "/usr/sbin", "/sbin")
_PACKAGES = {
    "ip": "iproute2",
    "tc": "iproute2",
    "mount": "mount",
    "unshare": "util-linux",
    "nsenter": "util-linux",
    "ssh-keygen": "openssh-client",
    "sshd": "openssh-server",
}


def check_root(arguments: list[str]) -> None:
    """Refuse with the sudo line to type, which runs this very interpreter.

    Args:
        arguments: the command line without the program, such as ``lab up 3``.
    """
    if not sys.platform.startswith("linux"):
        raise RefusedError("a lab needs Linux", hint="run it on a Linux machine or in WSL2")
    if os.geteuid() != 0:
        line = shlex.join([sys.executable, *_program(), *arguments])
        raise RefusedError("a lab needs root: it makes network namespaces", hint=f"sudo {line}")


def _program() -> list[str]:
    """How this interpreter was told to run shanty."""
    script = Path(sys.argv[0])
    if script.is_file():
        return [str(script.resolve())]
    return ["-c", "from shanty.cli.main import main; main()"]


def check_programs() -> None:
    """Refuse with the packages that are missing."""
    missing = {name: package for name, package in _PACKAGES.items() if not program(name)}
    if missing:
        raise RefusedError(
            f"missing programs: {', '.join(missing)}",
            hint=f"sudo apt-get install {' '.join(sorted(set(missing.values())))}",
        )


def program(name: str) -> str:
    """Full path of a program, also of one that only root's PATH holds; "" when absent."""
    folders = os.pathsep.join((os.environ.get("PATH", os.defpath), *_SBIN))
    return shutil.which(name, path=folders) or ""


def login() -> Login:
    """The person who typed sudo, or root itself."""
    uid = os.environ.get("SUDO_UID", "")
    try:
        entry = pwd.getpwuid(int(uid) if uid.isdigit() else 0)
    except KeyError:
        entry = pwd.getpwuid(0)
    shell = Path(entry.pw_shell)
    if not shell.is_file() or shell.name in ("nologin", "false"):
        shell = Path("/bin/sh")
    return Login(name=entry.pw_name, uid=entry.pw_uid, gid=entry.pw_gid, shell=str(shell))
