"""What a lab is, as a value, and where it is written down: before each step, never after it."""

from __future__ import annotations

import fcntl
import os
import re
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from shanty.errors import RefusedError, UsageError
from shanty.record.atomic import read_json, write_json
from shanty.record.process import ProcessId
from shanty.spec.codec import from_dict, to_dict

# /run is empty after a restart of the machine, exactly as namespaces are.
ROOT = Path("/run/shanty-lab")
SWITCH, OPERATOR = "switch", "op"
MOST_BOARDS = 50


@dataclass(frozen=True, kw_only=True)
class Login:
    """Who logs in on the boards and works in the operator's place: the person who typed sudo."""

    name: str
    uid: int
    gid: int
    shell: str


@dataclass(frozen=True, kw_only=True)
class Host:
    """A board, or the operator's place: its name on the cable and its address."""

    name: str
    address: str


@dataclass(frozen=True, kw_only=True)
class Holder:
    """The process whose end is the end of a host: with it go its processes and namespaces."""

    name: str
    process: ProcessId


@dataclass(frozen=True, kw_only=True)
class Lab:
    """A lab: ``disk`` is the size of each board's own disk in bytes."""

    name: str
    link: str
    disk: int
    login: Login
    hosts: tuple[Host, ...]
    holders: tuple[Holder, ...] = ()

    @property
    def folder(self) -> Path:
        """The lab's only trace on the machine's disk."""
        return folder_of(self.name)

    @property
    def boards(self) -> tuple[Host, ...]:
        """The hosts without the operator's place."""
        return tuple(host for host in self.hosts if host.name != OPERATOR)

    def host(self, name: str) -> Host:
        """The host of this name; UsageError when there is none."""
        for host in self.hosts:
            if host.name == name:
                return host
        names = ", ".join(host.name for host in self.hosts)
        raise UsageError(f"the lab has no {name}", hint=f"choose one of: {names}")

    def held(self, name: str, process: ProcessId) -> Lab:
        """The same lab, in which ``process`` holds the host ``name``."""
        others = tuple(h for h in self.holders if h.name != name)
        return replace(self, holders=(*others, Holder(name=name, process=process)))


def folder_of(name: str) -> Path:
    """Where the lab of this name keeps its state; UsageError for a name that is none."""
    if not re.fullmatch(r"[a-z][a-z0-9-]{0,15}", name):
        raise UsageError(
            f"{name!r} is no name for a lab",
            hint="up to 16 small letters, digits and -, a letter first",
        )
    return ROOT / name


def hosts_for(count: int) -> tuple[Host, ...]:
    """``n1`` to ``nCOUNT`` and the operator's place, on one subnet."""
    if not 1 <= count <= MOST_BOARDS:
        raise UsageError(f"{count} boards", hint=f"choose 1 to {MOST_BOARDS}")
    boards = [Host(name=f"n{k}", address=f"10.77.0.{k}") for k in range(1, count + 1)]
    return (*boards, Host(name=OPERATOR, address="10.77.0.254"))


def claim(folder: Path) -> None:
    """Make the lab's folder, or refuse when a lab of this name is there."""
    folder.parent.mkdir(mode=0o755, exist_ok=True)
    try:
        folder.mkdir(mode=0o700)
    except FileNotFoundError:  # the last other lab went in between, and the parent with it
        claim(folder)
    except FileExistsError:
        raise RefusedError(
            f"the lab {folder.name} is up already, or was left behind",
            hint=f"shanty lab down --name {folder.name}",
        ) from None


@contextmanager
def locked(folder: Path, limit: float = 15) -> Generator[None]:
    """Only one command changes a lab at a time; a killed one lets go by itself.

    Raises:
        RefusedError: there is no such lab, or another command holds it for ``limit`` seconds.
    """
    if not folder.is_dir():
        raise _no_lab(folder)
    with (folder / "lock").open("a") as file:
        _wait_for(file.fileno(), folder, limit)
        if not _still_there(file.fileno(), folder / "lock"):
            raise _no_lab(folder)  # it was taken down, and perhaps made again, while we waited
        yield


def _still_there(handle: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False


def _wait_for(handle: int, folder: Path, limit: float) -> None:
    end = time.monotonic() + limit
    while True:
        try:
            return fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > end:
                raise RefusedError(
                    f"another command is busy with the lab {folder.name}",
                    hint="wait for it to end, then try again",
                ) from None
            time.sleep(0.05)


def save(lab: Lab) -> None:
    """Write the lab down, in one step."""
    write_json(lab.folder / "lab.json", to_dict(lab), mode=0o600)


def load(name: str) -> Lab:
    """The lab of this name as it was written down last; RefusedError when there is none."""
    folder = folder_of(name)
    try:
        return from_dict(Lab, read_json(folder / "lab.json"))
    except FileNotFoundError:
        raise _no_lab(folder) from None
    except (ValueError, TypeError, UsageError) as error:
        raise RefusedError(
            f"{folder / 'lab.json'} was written by another version: {error}",
            hint="take the lab down with the shanty that made it",
        ) from error


def labs() -> list[str]:
    """Names of all labs of this machine, sorted."""
    return sorted(path.name for path in ROOT.glob("*") if path.is_dir())


def _no_lab(folder: Path) -> RefusedError:
    known = ", ".join(name for name in labs() if name != folder.name)
    return RefusedError(
        f"there is no lab {folder.name}" + (f" (there is {known})" if known else ""),
        hint="shanty lab up 3",
    )
