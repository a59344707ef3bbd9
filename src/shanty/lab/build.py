"""Up and down. Each step is written down before it is taken, so down knows all that up made."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from shanty.errors import FailedError, RefusedError
from shanty.lab import furniture, hold, keys, needs, wires
from shanty.lab.dial import answers
from shanty.lab.enter import Inside, inside, whole
from shanty.lab.state import (
    OPERATOR,
    ROOT,
    SWITCH,
    Host,
    Lab,
    claim,
    folder_of,
    hosts_for,
    load,
    locked,
    save,
)


@dataclass(frozen=True, kw_only=True)
class Request:
    """What is asked of ``up``: ``disk`` is the size of each board's own disk in bytes."""

    boards: int
    name: str = "lab"
    link: str = "1gbit"
    disk: int = 2 << 30


def up(request: Request) -> Iterator[str]:
    """Build the lab; a line for each host that stands. On any error, all of it is removed again.

    Raises:
        UsageError: a number, name or speed that is none.
        RefusedError: not possible here, or a lab of this name is there already.
        FailedError: the machine did not do what it was asked.
    """
    lab = plan(request)
    needs.check_programs()
    claim(lab.folder)
    with locked(lab.folder):
        try:
            save(lab)
            yield from _build(lab)
        except BaseException:
            _remove(lab.name)
            raise


def plan(request: Request) -> Lab:
    """The lab as a value; nothing is done yet."""
    folder_of(request.name)
    wires.speed_of(request.link)
    return Lab(
        name=request.name,
        link=request.link,
        disk=request.disk,
        login=needs.login(),
        hosts=hosts_for(request.boards),
    )


def _build(lab: Lab) -> Iterator[str]:
    keys.make_keys(lab)
    lab = _start(lab, SWITCH)
    for host in lab.hosts:
        lab = _start(lab, host.name)
        yield f"{host.name}  {host.address}"


def _start(lab: Lab, name: str) -> Lab:
    """Bring one host to life; it stays only when it is whole."""
    gate = hold.Gate(name, lab.folder / f"log.{name}")
    lab = lab.held(name, gate.process)
    save(lab)
    if name == SWITCH:
        wires.make_switch(Inside(name=name, init=gate.open(furniture.bare(lab))))
    else:
        host = lab.host(name)
        place = Inside(name=name, init=gate.open(furniture.furniture(lab, host)))
        wires.plug_in(lab, inside(lab, SWITCH), place, host)
        if name != OPERATOR:
            _start_sshd(lab, place, host)
    gate.stay()
    return lab


def _start_sshd(lab: Lab, place: Inside, host: Host) -> None:
    config, log = f"{lab.folder}/etc/sshd_config", f"{lab.folder}/etc/sshd.log"
    whole(place, "sshd", "-f", config, "-E", log)
    if not hold.wait_until(lambda: answers(place, host.address, 22) == "open", 10):
        raise FailedError("its sshd does not answer", node=host.name, hint=f"see {log} there")


def down(name: str) -> int:
    """Remove exactly what ``up`` made, whole or half made; how many hosts were still alive."""
    with locked(folder_of(name)):
        return _remove(name)


def _remove(name: str) -> int:
    """End the hosts, and with them all their processes, namespaces and mounts; then the folder."""
    folder = folder_of(name)
    # Without a state, up broke off before its first step.
    holders = load(name).holders if (folder / "lab.json").exists() else ()
    ended = hold.end([holder.process for holder in holders])
    shutil.rmtree(folder, ignore_errors=True)
    with suppress(OSError):  # another lab is there
        ROOT.rmdir()
    return ended


def power_off(lab: Lab, name: str) -> None:
    """Cut the cable first, so that nobody hears a good-bye; then end all on the board."""
    wires.carrier(inside(lab, SWITCH), inside(lab, name), on=False)
    hold.end([holder.process for holder in lab.holders if holder.name == name])


def boot(lab: Lab, name: str) -> None:
    """A board anew, with an empty disk and its old name, address and host key."""
    host = lab.host(name)
    if any(holder.name == name and hold.runs(holder.process) for holder in lab.holders):
        raise RefusedError("is on", node=host.name, hint=f"shanty lab kill {name}")
    _start(lab, name)
