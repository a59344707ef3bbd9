"""Interfaces, routes and what the own name stands for."""

from __future__ import annotations

import fcntl
import ipaddress
import json
import os
import re
import socket
import struct
from pathlib import Path
from typing import Any

from shanty.cluster.probe.tree import Tree, number, text

# What `ip -details` says of an interface that no cable or antenna belongs to.
VIRTUAL = {
    "tun": "tunnel", "wireguard": "tunnel", "ipip": "tunnel", "gre": "tunnel", "bridge": "bridge",
    "veth": "veth", "bond": "bond", "vlan": "vlan", "dummy": "dummy",
}  # fmt: skip
USB_NETWORK = ("rndis_host", "cdc_ether", "cdc_ncm", "cdc_subset", "g_ether")


def read_resolves(tree: Tree) -> list[str] | None:
    """The addresses that this machine's own name stands for; [] when it stands for none."""
    if not tree.live:
        return None
    try:
        found = socket.getaddrinfo(os.uname().nodename, None, type=socket.SOCK_STREAM)
    except OSError:
        return []
    return sorted({str(entry[4][0]) for entry in found})


def read_interfaces(tree: Tree) -> list[dict[str, Any]]:
    """Every interface of this network namespace."""
    said = tree.said("ip", "-j", "-d", "addr")
    try:
        entries = json.loads(said or "null")
    except ValueError:  # an ip that knows no JSON
        entries = None
    if entries is None:
        entries = asked_kernel(tree) if tree.live else []
    return [interface(tree.root / "sys/class/net" / e["ifname"], e) for e in entries if e]


def asked_kernel(tree: Tree) -> list[dict[str, Any]]:
    """What ``ip -j addr`` would say, where there is none: one IPv4 address each (netdevice(7))."""
    rows = [line.split() for line in (tree.text("proc/net/if_inet6") or "").splitlines()]
    found = []
    for _, name in socket.if_nameindex():
        folder = tree.root / "sys/class/net" / name
        flags = ["UP", "LOWER_UP"] if text(folder / "carrier") == "1" else []
        infos = [
            {"local": str(ipaddress.IPv6Address(int(r[0], 16))), "prefixlen": int(r[2], 16)}
            for r in rows
            if r[5] == name
        ]
        infos += [{"local": a, "prefixlen": p} for a, p in ipv4(name)]
        kind = {1: "ether", 772: "loopback", 280: "can"}.get(number(folder / "type") or 0)
        entry = {"ifname": name, "flags": flags, "mtu": number(folder / "mtu")}
        found.append({**entry, "addr_info": infos, "link_type": kind})
    return found


def ipv4(name: str) -> list[tuple[str, int]]:
    """The first IPv4 address of an interface with its prefix length; [] when it has none."""
    request = struct.pack("256s", name.encode()[:15])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        try:
            address, mask = (fcntl.ioctl(asking, n, request)[20:24] for n in (0x8915, 0x891B))
        except OSError:  # it has none
            return []
    return [(socket.inet_ntoa(address), bin(struct.unpack("=L", mask)[0]).count("1"))]


def interface(folder: Path, entry: dict[str, Any]) -> dict[str, Any]:
    """What ``ip`` said of one interface, and what sysfs adds."""
    speed, duplex = number(folder / "speed"), text(folder / "duplex")
    driver = re.search(r"^DRIVER=(.+)$", text(folder / "device/uevent") or "", re.M)
    infos = [a for a in entry.get("addr_info", []) if a.get("local")]
    found = {
        "name": entry["ifname"],
        "mac": entry.get("address"),
        "mtu": entry.get("mtu"),
        "up": {"UP", "LOWER_UP"} <= set(entry.get("flags", [])),
        "addresses": [f"{a['local']}/{a['prefixlen']}" for a in infos],
        "speed": speed if speed and speed > 0 else None,
        "duplex": duplex if duplex in ("full", "half") else None,
        "driver": driver.group(1) if driver else None,
    }
    return {**found, "kind": kind_of(folder, entry, str(found["driver"]))}


def kind_of(folder: Path, entry: dict[str, Any], driver: str) -> str:
    """A guess from names and drivers; what decides is whether the others can be reached."""
    name, link = entry["ifname"], entry.get("link_type")
    if link in ("loopback", "can"):
        return link
    if re.match(r"docker|br-[0-9a-f]{12}$", name):
        return "docker"
    if name.startswith("wl") or (folder / "wireless").exists() or (folder / "phy80211").exists():
        return "wifi"
    if name.startswith("usb") or driver in USB_NETWORK:
        return "usb"
    told = (entry.get("linkinfo") or {}).get("info_kind")
    return VIRTUAL.get(told, "other") if told else "ethernet" if link == "ether" else "other"


def read_routes(tree: Tree) -> list[dict[str, Any]]:
    """The main routing table (proc(5), /proc/net/route and ipv6_route), without link-local ones."""
    found = []
    for r in [line.split() for line in (tree.text("proc/net/route") or "").splitlines()[1:]]:
        net, via = (struct.pack("=L", int(r[i], 16)) for i in (1, 2))
        to = f"{socket.inet_ntoa(net)}/{bin(int(r[7], 16)).count('1')}"
        found.append({"to": to, "interface": r[0], "metric": int(r[6]), "via": dotted(via)})
    for r in [line.split() for line in (tree.text("proc/net/ipv6_route") or "").splitlines()]:
        if r[9] == "lo" or r[0].startswith(("fe80", "ff")) or int(r[8], 16) & 0x200:  # RTF_REJECT
            continue
        to = f"{dotted(bytes.fromhex(r[0])) or '::'}/{int(r[1], 16)}"
        via = dotted(bytes.fromhex(r[4]))
        found.append({"to": to, "interface": r[9], "metric": int(r[5], 16), "via": via})
    return found


def dotted(address: bytes) -> str | None:
    """An address as text; None for the empty one."""
    return str(ipaddress.ip_address(address)) if any(address) else None
