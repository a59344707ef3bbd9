"""How a lab stands, read from the living hosts and not from what was once asked."""

from __future__ import annotations

from dataclasses import dataclass

from shanty.errors import FailedError
from shanty.lab.enter import Inside, inside
from shanty.lab.firewall import closed
from shanty.lab.processes import frozen, of_host
from shanty.lab.state import Host, Lab
from shanty.lab.wires import speed_at


@dataclass(frozen=True, kw_only=True)
class Standing:
    """One host: ``state`` is up, off or frozen; ``cable`` is out, or its speed."""

    name: str
    address: str
    state: str
    cable: str = ""
    mtu: str = ""
    firewall: bool = False
    processes: int = 0


def standings(lab: Lab) -> list[Standing]:
    """Every host of the lab."""
    return [_standing(lab, host) for host in lab.hosts]


def _standing(lab: Lab, host: Host) -> Standing:
    try:
        place = inside(lab, host.name)
    except FailedError:
        return Standing(name=host.name, address=host.address, state="off")
    return Standing(
        name=host.name,
        address=host.address,
        state="frozen" if frozen(place) else "up",
        cable=_cable(place),
        mtu=place.interface("mtu"),
        firewall=closed(place),
        processes=len(of_host(place)),
    )


def _cable(place: Inside) -> str:
    if place.interface("carrier") != "1":
        return "out"
    bits = speed_at(place, "eno1")
    return "none" if bits is None else f"{bits // 10**6}mbit"
