"""What each host is furnished with, as plain data for its process 1."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Any

from shanty.lab import keys, site
from shanty.lab.state import OPERATOR, Host, Lab

_LOCAL = "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n"
_BINDS = (
    ("etc/passwd", "/etc/passwd"),
    ("etc/shadow", "/etc/shadow"),
    ("etc/hosts", "/etc/hosts"),
    ("etc/hostname", "/etc/hostname"),
    ("etc/machine-id", "/etc/machine-id"),
)


def bare(lab: Lab) -> dict[str, Any]:
    """The switch: a namespace for its network, nothing of its own to log in to."""
    return _spec(lab, "switch", files=[], binds=[])


def furniture(lab: Lab, host: Host) -> dict[str, Any]:
    """A board, or the operator's place: names, users, keys; on a board also a Python."""
    files = [*_names(lab, host), *_users(lab)]
    if host.name == OPERATOR:
        return _spec(lab, host.name, files=files + _operator(lab), binds=list(_BINDS))
    python = site.site_at(lab.folder)
    files += [*_board(lab, host), _file(f"{site.VENV}/pyvenv.cfg", python.config)]
    spec = _spec(lab, host.name, files=files, binds=list(_BINDS))
    return spec | {"site": python.folders, "links": python.links, "sealed": True}


def _spec(lab: Lab, name: str, *, files: list[Any], binds: list[Any]) -> dict[str, Any]:
    return {
        "hostname": name,
        "root": str(lab.folder),
        "disk": lab.disk,
        "uid": lab.login.uid,
        "gid": lab.login.gid,
        "files": files,
        "binds": binds,
        "site": [],
        "links": [],
        "sealed": False,
    }


def _file(path: str, text: str | None, mode: int = 0o644, *, theirs: bool = False) -> Any:
    return {"path": path, "text": text, "mode": mode, "theirs": theirs}


def _names(lab: Lab, host: Host) -> list[Any]:
    return [
        _file("etc/hosts", _hosts(lab, host)),
        _file("etc/hostname", f"{host.name}\n"),
        _file("etc/machine-id", f"{secrets.token_hex(16)}\n"),
        _file("etc/speed", "10000\n"),
    ]


def _hosts(lab: Lab, host: Host) -> str:
    """Ubuntu's own line on 127.0.1.1; the others are known to the operator only."""
    text = f"{_LOCAL}127.0.1.1 {host.name}\n"
    if host.name == OPERATOR:
        text += "".join(f"{board.address} {board.name}\n" for board in lab.boards)
    return text


def _users(lab: Lab) -> list[Any]:
    """The machine's users, but the home of who logs in lies on the host's own disk."""
    login, home = lab.login, f"{lab.folder}/home"
    lines = Path("/etc/passwd").read_text("utf-8", "surrogateescape").splitlines()
    others = [line for line in lines if line.split(":")[0] != login.name]
    own = f"{login.name}:x:{login.uid}:{login.gid}::{home}:{login.shell}"
    return [
        _file("etc/passwd", "\n".join([own, *others, ""])),
        _file("etc/shadow", f"{login.name}:*:19000:0:99999:7:::\n", 0o600),
        _file("home", None, 0o755, theirs=True),
        _file("home/.ssh", None, 0o700, theirs=True),
    ]


def _board(lab: Lab, host: Host) -> list[Any]:
    return [
        _file("home/.ssh/authorized_keys", keys.public(lab.folder / "id"), 0o600, theirs=True),
        _file("etc/host_key", keys.host_key(lab, host).read_text(), 0o600),
        _file("etc/sshd_config", keys.sshd_config(lab, host)),
    ]


def _operator(lab: Lab) -> list[Any]:
    """The same paths as on the machine, where the lab's folder is closed to all but root."""
    folder = lab.folder
    return [
        _file("id", (folder / "id").read_text(), 0o600, theirs=True),
        _file("known_hosts", (folder / "known_hosts").read_text()),
        _file("ssh_config", (folder / "ssh_config").read_text()),
        _file("home/.ssh/config", f"Include {folder}/ssh_config\n", 0o600, theirs=True),
    ]
