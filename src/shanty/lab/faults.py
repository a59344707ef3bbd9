"""What goes wrong on a desk, made on demand, each seen to have taken effect."""

from __future__ import annotations

import os
from collections.abc import Sequence

from shanty.errors import FailedError, UsageError
from shanty.lab import firewall, wires
from shanty.lab.dial import answers, arrives
from shanty.lab.enter import inside
from shanty.lab.hold import wait_until
from shanty.lab.processes import carry_on, stop_all
from shanty.lab.state import OPERATOR, SWITCH, Lab
from shanty.units import size

_FILLER = "home/.filler"
_SSH = 22


def cut(lab: Lab, name: str) -> str:
    """Pull the cable: no packet, no reset, only a lost carrier."""
    wires.carrier(inside(lab, SWITCH), inside(lab, name), on=False)
    return f"{name}: the cable is out"


def link(lab: Lab, name: str, speed: str) -> str:
    """Another speed, in both directions."""
    wires.set_speed(lab, inside(lab, SWITCH), inside(lab, name), speed)
    return f"{name}: the cable runs at {speed}"


def close(lab: Lab, name: str, ports: Sequence[int]) -> str:
    """Drop new connections from outside, without an answer, but to ssh and ``ports``."""
    kept = (_SSH, *ports)
    firewall.close(inside(lab, name), kept)
    free = next(port for port in range(9, 65535) if port not in kept)
    if answers(inside(lab, _other(lab, name)), lab.host(name).address, free) != "silent":
        raise FailedError("its firewall lets everything in", node=name)
    listed = ", ".join(str(port) for port in kept)
    return f"{name}: new connections are dropped, but to port {listed}"


def mtu(lab: Lab, name: str, number: int, *, path: bool = False) -> str:
    """Another MTU: of the host's own interface, or (``path``) of the switch's port alone.

    The second loses large packets in both directions without a word, as a switch or tunnel does.
    """
    if not 68 <= number <= 65535:
        raise UsageError(f"{number} is no MTU", hint="choose 68 to 65535; Ethernet has 1500")
    host = inside(lab, name)
    if not path:
        wires.set_mtu(host, "eno1", number)
        return f"{name}: eno1 has MTU {number}"
    _whole_packets(lab, only=True)
    wires.set_mtu(inside(lab, SWITCH), name, number)
    other = inside(lab, _other(lab, name))
    address = lab.host(name).address
    if number < wires.PLAIN_MTU and arrives(other, address, wires.PLAIN_MTU - 28):
        raise FailedError("large packets still arrive", node=name)
    return f"{name}: packets above {number} bytes are lost on the way"


def freeze(lab: Lab, name: str) -> str:
    """Stop every process of the host; its kernel still answers, as that of a hung board does."""
    return f"{name}: {stop_all(inside(lab, name))} processes are frozen"


def thaw(lab: Lab, name: str) -> str:
    """Let the host's processes go on."""
    return f"{name}: {carry_on(inside(lab, name))} processes go on"


def fill(lab: Lab, name: str, leave: int) -> str:
    """Fill the host's own disk up to ``leave`` bytes."""
    place = inside(lab, name).path(f"{lab.folder}/{_FILLER}")
    with place.open("ab") as file:
        count = _free(place.parent) - leave
        if count > 0:
            os.posix_fallocate(file.fileno(), file.tell(), count)
    left = _free(place.parent)
    if left > max(leave, 64 * 1024):
        raise FailedError(f"its disk still has {size(left)}", node=name)
    return f"{name}: {size(left)} left on its disk"


def heal(lab: Lab, name: str) -> str:
    """Undo every fault of a host: cable, speed, MTU, firewall, disk, frozen processes."""
    host, switch = inside(lab, name), inside(lab, SWITCH)
    carry_on(host)
    host.path(f"{lab.folder}/{_FILLER}").unlink(missing_ok=True)
    firewall.open_up(host)
    wires.set_mtu(host, "eno1", wires.PLAIN_MTU)
    wires.set_mtu(switch, name, wires.PLAIN_MTU)
    wires.carrier(switch, host, on=True)
    wires.set_speed(lab, switch, host, lab.link)
    _whole_packets(lab, only=False)
    _reached(lab, name)
    return f"{name}: as new"


def _reached(lab: Lab, name: str) -> None:
    """The host is on the network again, as seen from another that has its cable in."""
    other = inside(lab, _other(lab, name))
    address = lab.host(name).address
    if other.interface("carrier") == "0":
        return
    if not wait_until(lambda: answers(other, address, _SSH) != "silent", 8):
        raise FailedError("it is still out of reach", node=name, hint="shanty lab down; lab up")


def _whole_packets(lab: Lab, *, only: bool) -> None:
    names = {holder.name for holder in lab.holders} - {SWITCH}
    for name in names:
        try:
            host = inside(lab, name)
        except FailedError:  # its power is off
            continue
        wires.whole_packets(host, only=only)


def _other(lab: Lab, name: str) -> str:
    """Who looks at a host from outside: the operator's place, or for that one a board."""
    return OPERATOR if name != OPERATOR else lab.boards[0].name


def _free(folder: os.PathLike[str]) -> int:
    room = os.statvfs(folder)
    return room.f_bavail * room.f_frsize
