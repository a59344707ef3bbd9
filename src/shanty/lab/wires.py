"""The cables: one switch in a namespace of its own, a cable to each host, its speed, a decoy."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from shanty.errors import FailedError, UsageError
from shanty.lab.enter import Inside, net, whole
from shanty.lab.hold import wait_until
from shanty.lab.state import Host, Lab

PLAIN_MTU = 1500
_STEP = 32 * 1024


@dataclass(frozen=True, kw_only=True)
class Speed:
    """A cable's speed: bits per second, and how many bytes may pass at once."""

    bits: int
    burst: int


def speed_of(text: str) -> Speed | None:
    """``1gbit``, ``100mbit`` as numbers; None for ``none``, a cable as quick as the machine."""
    if text == "none":
        return None
    match = re.fullmatch(r"([1-9][0-9]{0,4})(mbit|gbit)", text)
    if match is None:
        raise UsageError(f"{text!r} is no speed", hint="write it as 1gbit, 100mbit, or none")
    bits = int(match[1]) * (10**9 if match[2] == "gbit" else 10**6)
    # A millisecond's worth in whole steps: less would throttle below the rate on a busy machine.
    return Speed(bits=bits, burst=max(1, -(-bits // 8000 // _STEP)) * _STEP)


def make_switch(switch: Inside) -> None:
    """A bridge that forwards at once and knows nobody yet."""
    net(switch, "ip", "link", "set", "lo", "up")
    net(switch, "ip", "link", "add", "br0", "type", "bridge", "forward_delay", "0")
    net(switch, "ip", "link", "set", "br0", "up")


def plug_in(lab: Lab, switch: Inside, inside: Inside, host: Host) -> None:
    """A cable from the switch's port ``NAME`` to the host's ``eno1``, and docker0 as decoy."""
    peer = ("peer", "name", "eno1", "address", mac_of(host), "netns", str(inside.init))
    net(switch, "ip", "link", "add", host.name, "type", "veth", *peer)
    net(switch, "ip", "link", "set", host.name, "master", "br0", "up")
    net(inside, "ip", "link", "set", "lo", "up")
    net(inside, "ip", "addr", "add", f"{host.address}/24", "dev", "eno1")
    net(inside, "ip", "link", "set", "eno1", "up")
    net(inside, "ip", "link", "add", "docker0", "type", "bridge")
    net(inside, "ip", "addr", "add", "172.17.0.1/16", "dev", "docker0")
    net(inside, "ip", "link", "set", "docker0", "up")
    # The kernel says 10000 of every such cable; a real port says what it negotiated.
    whole(inside, "mount", "--bind", f"{lab.folder}/etc/speed", "/sys/class/net/eno1/speed")
    set_speed(lab, switch, inside, lab.link)


def mac_of(host: Host) -> str:
    """The same for ever: a board that boots anew is the same board to the others' ARP tables."""
    numbers = [2, 0, *(int(part) for part in host.address.split("."))]
    return ":".join(f"{number:02x}" for number in numbers)


def set_speed(lab: Lab, switch: Inside, host: Inside, link: str) -> None:
    """Both directions of a host's cable at this speed; FailedError unless the kernel agrees."""
    speed = speed_of(link)
    for end, device in ((host, "eno1"), (switch, host.name)):
        if speed_at(end, device) is not None:
            net(end, "tc", "qdisc", "del", "dev", device, "root")
        if speed is not None:
            tbf = ("rate", f"{speed.bits}bit", "burst", f"{speed.burst}b", "latency", "50ms")
            net(end, "tc", "qdisc", "replace", "dev", device, "root", "tbf", *tbf)
        if speed_at(end, device) != (speed.bits if speed else None):
            raise FailedError(f"its cable does not take {link}", node=host.name)
    megabits = speed.bits // 10**6 if speed else 10_000
    host.path(f"{lab.folder}/etc/speed").write_text(f"{megabits}\n")


def speed_at(host: Inside, device: str) -> int | None:
    """Bits per second to which one end of a cable is held; None when it is not."""
    answer = json.loads(net(host, "tc", "-j", "qdisc", "show", "dev", device) or "[]")
    for queue in answer:
        if queue.get("kind") == "tbf":
            return 8 * int(queue["options"]["rate"])
    return None


def carrier(switch: Inside, host: Inside, *, on: bool) -> None:
    """Put the cable in or out at the switch; the host sees it by its lost carrier alone."""
    net(switch, "ip", "link", "set", host.name, "up" if on else "down")
    if not wait_until(lambda: host.interface("carrier") == str(int(on)), 3):
        raise FailedError(f"its cable is not {'in' if on else 'out'}", node=host.name)


def set_mtu(end: Inside, device: str, mtu: int) -> None:
    """One end's MTU; FailedError unless the kernel agrees."""
    net(end, "ip", "link", "set", device, "mtu", str(mtu))
    said = json.loads(net(end, "ip", "-j", "link", "show", device))[0]["mtu"]
    if said != mtu:
        raise FailedError(f"its MTU is {said}, not {mtu}", node=end.name)


def whole_packets(end: Inside, *, only: bool) -> None:
    """Whether the host hands the cable packets of cable size only: a real one always does."""
    most = "1" if only else "65535"
    net(end, "ip", "link", "set", "dev", "eno1", "gso_max_segs", most)
