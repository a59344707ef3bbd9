"""Which machines: ``--hosts a,user@b:2222,c``, or a commented ``cluster.toml``."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from shanty.cli.tomlfile import TomlFile, parse
from shanty.errors import UsageError
from shanty.spec.cluster import LOCAL, Cluster, Node
from shanty.spec.codec import nearest

# A host is given to ssh, which gives it to a shell where a jump host is used; a name becomes part
# of file names. Neither may begin like an option.
_ADDRESS = re.compile(r"[\w][\w.:%\-]*")
_USER = re.compile(r"[\w][\w.@+\\\-]*")
_NAME = re.compile(r"[\w][\w.:%\-]*")
_BRACKETS = re.compile(r"\[([^\[\]]+)\](?::(.*))?")
_EXAMPLE = "write them like this: --hosts 192.168.0.11,user@192.168.0.12:2222"

# What a node's table may hold, and the kind of value. The comments become the file's.
_KEYS: dict[str, tuple[type, str]] = {
    "address": (str, "name or number that ssh reaches; local: this very machine, without ssh"),
    "user": (str, "who logs in there; left out: as your ssh config says"),
    "port": (int, "of its sshd; left out: as your ssh config says"),
    "python": (str, "the Python that has torch, such as ~/venv/bin/python"),
    "workdir": (str, "folder there in which runs are kept"),
    "data": (str, "the images on that node, where it is another path than --data"),
    "devices": (list, "GPUs to use, such as [0], or [\"cpu\"]; left out: all GPUs"),
    "interface": (str, "network interface, such as eno1; left out: shanty chooses and says why"),
}  # fmt: skip
_TOP = ("interface", "defaults", "nodes")


def from_hosts(text: str) -> Cluster:
    """The nodes of ``--hosts``: addresses with commas between, each ``[user@]address[:port]``.

    Raises:
        UsageError: an entry is no address, or stands there twice.
    """
    entries = [part.strip() for part in text.split(",") if part.strip()]
    if not entries:
        raise UsageError(f"--hosts {text!r} names no machine", hint=_EXAMPLE)
    nodes = [_entry(entry) for entry in entries]
    alike = {n.address.lower() for n in nodes if _count(nodes, n) > 1}
    named = [
        replace(n, name=f"{n.address}:{n.port or 22}") if n.address.lower() in alike else n
        for n in nodes
    ]
    _no_twins((node, f"--hosts entry {i}") for i, node in enumerate(named, 1))
    return Cluster(nodes=tuple(named))


def from_file(path: Path) -> Cluster:
    """The nodes of a cluster file, in the order in which they stand there.

    Raises:
        UsageError: no TOML, an unknown key (with the nearest), a wrong value, the same machine
            twice; file and line are named.
    """
    file = _read(path)
    data = parse(file.text, f"cluster file {path}")
    _known(data, list(_TOP), file, "")
    tables, defaults = data.get("nodes", {}), data.get("defaults", {})
    if not isinstance(tables, dict) or not tables:
        raise UsageError(f"{path} names no node", hint='write: [nodes.n1] and address = "..."')
    shared = _values(defaults, file, "defaults")
    if "address" in shared:
        what = f"{file.place('defaults.address')}: two nodes cannot have one address"
        raise UsageError(what, hint="give each node its own, below its [nodes.NAME]")
    nodes = [_node(name, table, shared, file) for name, table in tables.items()]
    _no_twins((n, file.place(f"nodes.{n.name}.address")) for n in nodes)
    interface = _values({"interface": data.get("interface", "")}, file, "")["interface"]
    return Cluster(nodes=tuple(nodes), interface=interface)


def render(cluster: Cluster) -> str:
    """A cluster file that says the same, with a comment for every key; unset keys are comments."""
    lines = ["# The machines that train together. Rank 0 is the first one.", ""]
    lines += _line("interface", cluster.interface, "for all nodes; left out: shanty chooses")
    for node in cluster.nodes:
        lines += ["", f"[nodes.{_quote_key(node.name)}]"]
        for key, (_, comment) in _KEYS.items():
            value: Any = getattr(node, key)
            lines += _line(key, list(value) if isinstance(value, tuple) else value, comment)
    return "\n".join(lines) + "\n"


def _entry(text: str) -> Node:
    user, at, host = text.rpartition("@")
    inside = _BRACKETS.fullmatch(host)
    if inside:
        address, port = inside[1], inside[2]
    elif host.count(":") > 1:  # an IPv6 address without brackets
        address, port = host, None
    else:
        address, colon, port = host.partition(":")
        port = port if colon else None
    if (at and not user) or not _is_port(port):
        raise UsageError(f"--hosts: {text} is no [user@]address[:port]", hint=_EXAMPLE)
    node = Node(name=address, address=address, user=user, port=int(port or 0))
    _checked(node, f"--hosts {text}")
    return node


def _is_port(text: str | None) -> bool:
    return text is None or bool(re.fullmatch(r"[0-9]{1,5}", text) and 0 < int(text) < 65536)


def _count(nodes: list[Node], node: Node) -> int:
    return sum(n.address.lower() == node.address.lower() for n in nodes)


def _no_twins(placed: Iterable[tuple[Node, str]]) -> None:
    """Two nodes may share an address only behind two ports, as forwarded ones do."""
    seen: dict[tuple[str, int], tuple[Node, str]] = {}
    for node, place in placed:
        key = (node.address.lower(), node.port or 22)
        if key in seen:
            first, where = seen[key]
            raise UsageError(
                f"{place}: {node.name} has the address of {first.name} ({where}): {node.address}",
                hint="a machine is named once; give each node its own address",
            )
        seen[key] = (node, place)


def _read(path: Path) -> TomlFile:
    if not path.is_file():
        raise UsageError(f"no cluster file {path}", hint="make one: shanty init; or use --hosts")
    return TomlFile.read(path)


def _known(table: dict[str, Any], keys: list[str], file: TomlFile, prefix: str) -> None:
    for key in table:
        if key not in keys:
            what = f"{file.place(prefix + key)}: unknown key {prefix}{key}"
            raise UsageError(what, hint=nearest(key, keys))


def _node(name: str, table: Any, shared: dict[str, Any], file: TomlFile) -> Node:
    values = shared | _values(table, file, f"nodes.{name}")
    if not values.get("address"):
        what = f"{file.place(f'nodes.{name}')}: node {name} has no address"
        raise UsageError(what, hint='write below it: address = "192.168.0.11"')
    node = Node(name=name, **values)
    _checked(node, file.place(f"nodes.{name}"))
    return node


def _values(table: Any, file: TomlFile, where: str) -> dict[str, Any]:
    """A table's values, each of the right kind; ``devices`` as a tuple of texts."""
    if not isinstance(table, dict):
        what = f"{file.place(where)}: {where} is a section, not a value"
        raise UsageError(what, hint=f"write its keys below a line [{where}]")
    prefix = f"{where}." if where else ""
    _known(table, list(_KEYS), file, prefix)
    return {key: _value(key, value, file.place(prefix + key)) for key, value in table.items()}


def _value(key: str, value: Any, place: str) -> Any:
    if key == "devices":
        return _devices(value, place)
    kind = _KEYS[key][0]
    if not isinstance(value, kind) or isinstance(value, bool):
        wanted = "a whole number" if kind is int else 'a text in quotes: "..."'
        raise UsageError(f"{place}: {key} = {value!r} is not accepted", hint=f"give {wanted}")
    if key == "port" and not 0 < value < 65536:
        raise UsageError(f"{place}: port = {value} is none", hint="give a number from 1 to 65535")
    return value


def _devices(value: Any, place: str) -> tuple[str, ...]:
    many = value if isinstance(value, list) else [value]
    words = tuple(str(v) for v in many)
    if not all(re.fullmatch(r"[0-9]{1,3}", w) for w in words) and set(words) != {"cpu"}:
        what = f"{place}: devices = {value!r} is not accepted"
        raise UsageError(what, hint='give indexes of GPUs, [0, 1], or ["cpu"]')
    if "cpu" not in words and len(set(words)) < len(words):
        raise UsageError(f"{place}: devices names a GPU twice", hint="one rank per GPU")
    return words


def _checked(node: Node, place: str) -> None:
    """What ssh and file names can take."""
    faults = (
        ("name", node.name, _NAME, "letters, digits, dots and dashes"),
        ("address", node.address, _ADDRESS, "a name or number such as 192.168.0.11"),
        ("user", node.user or "x", _USER, "the name that you log in with"),
    )
    for what, text, pattern, wanted in faults:
        if not pattern.fullmatch(text):
            raise UsageError(f"{place}: {text!r} cannot be a node's {what}", hint=f"give {wanted}")
    if node.is_local and (node.user or node.port):
        raise UsageError(f"{place}: {LOCAL} is reached without ssh", hint="drop user and port")


def _quote_key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_\-]+", name) else f'"{name}"'


def _line(key: str, value: Any, comment: str) -> list[str]:
    shown = _toml(value)
    return [f"{key} = {shown}  # {comment}" if value else f"# {key} = {shown}  # {comment}"]


def _toml(value: Any) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(v if v.isdigit() else _toml(v) for v in value) + "]"
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return str(value)
