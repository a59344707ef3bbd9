"""Running a command on a host: in its network only, or wholly inside it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from shanty.errors import FailedError
from shanty.lab.hold import init_of
from shanty.lab.needs import program
from shanty.lab.state import OPERATOR, Lab

_ALL = ("--mount", "--uts", "--ipc", "--net", "--pid")
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True, kw_only=True)
class Inside:
    """A living host: ``init`` is its process 1 as this machine sees it."""

    name: str
    init: int

    def path(self, absolute: str) -> Path:
        """A file of the host, reached from here."""
        return Path(f"/proc/{self.init}/root{absolute}")

    def interface(self, fact: str, name: str = "eno1") -> str:
        """What the host's /sys says of an interface, such as ``mtu``; "" when it says nothing."""
        try:
            return self.path(f"/sys/class/net/{name}/{fact}").read_text().strip()
        except OSError:
            return ""


def inside(lab: Lab, name: str) -> Inside:
    """The living host of this name; FailedError when its power is off."""
    for holder in lab.holders:
        init = init_of(holder.process) if holder.name == name else None
        if init is not None:
            return Inside(name=name, init=init)
    raise FailedError("is off", node=name, hint=f"shanty lab boot {name} --name {lab.name}")


def net(host: Inside, *command: str) -> str:
    """Run ``ip`` or ``tc`` in the host's network as root; what it printed."""
    return _run(host, ["--net"], command)


def whole(host: Inside, *command: str, limit: float = 20) -> str:
    """Run a command wholly inside the host as root; what it printed."""
    return _run(host, _ALL, command, limit)


def python(host: Inside, code: str, *arguments: str) -> str:
    """Run a line of this Python in the host's network; what it printed."""
    return _run(host, ["--net"], (sys.executable, "-I", "-c", code, *arguments))


def _run(host: Inside, where: Sequence[str], command: Sequence[str], limit: float = 20) -> str:
    words = ["nsenter", "--target", str(host.init), *where, "--", *command]
    words[len(words) - len(command)] = program(command[0]) or command[0]
    try:
        done = subprocess.run(  # noqa: S603 - our own words
            words, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
            timeout=limit, cwd="/",
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise FailedError(f"no end of: {' '.join(command)}", node=host.name) from None
    if done.returncode:
        said = " ".join((done.stderr or done.stdout).split())
        raise FailedError(f"{' '.join(command)}: {said}", node=host.name)
    return done.stdout


def execute(lab: Lab, name: str, command: Sequence[str]) -> int:
    """Become a command on a host, as the person who logs in there; returns only on failure.

    On a board it starts in HOME with a bare environment, as over ssh. In the operator's place it
    keeps the current folder and environment, and finds this very shanty first.
    """
    host, login, home = inside(lab, name), lab.login, str(lab.folder / "home")
    place = {"HOME": home, "USER": login.name, "LOGNAME": login.name, "SHELL": login.shell}
    if name == OPERATOR:
        ours = f"{Path(sys.executable).parent}:{os.environ.get('PATH', _PATH)}"
        env, folder = os.environ | place | {"PATH": ours}, str(Path.cwd())
    else:
        path = f"{lab.folder}/python/bin:{_PATH}"
        env = place | {"PATH": path, "TERM": os.environ.get("TERM", "dumb"), "LANG": "C.UTF-8"}
        folder = home
    who = ["--setuid", str(login.uid), "--setgid", str(login.gid)]
    enter = ["nsenter", "--target", str(host.init), *_ALL, *who, "--"]
    words = [*enter, "env", "-C", folder, *command]
    sys.stdout.flush()
    os.execvpe(program("nsenter"), words, env)  # noqa: S606 - no shell is wanted
