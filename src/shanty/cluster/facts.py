"""What is known of a node, as values. ``None`` means unknown, never zero or no.

The probe (``cluster.probe``) writes them as JSON on the node; here they are read back, and a part
that is absent or of another kind than expected is left out rather than refused. Units: bytes,
hertz, seconds, degrees Celsius, Mbit/s for links.
"""

from __future__ import annotations

import ipaddress
import json
import types
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from shanty.errors import FailedError

T = TypeVar("T")
# L4T decides what fits a board; the name is for people (NVIDIA's release pages).
_JETPACK = (
    ("39.", "7.2"), ("38.4", "7.1"), ("38.", "7.0"), ("36.5", "6.2.2"), ("36.4.7", "6.2.1"),
    ("36.4.4", "6.2.1"), ("36.4.3", "6.2"), ("36.4", "6.1"), ("36.", "6.0"), ("35.", "5"),
    ("32.", "4"),
)  # fmt: skip
_CAPABILITY = {"tegra194": "7.2", "tegra234": "8.7", "tegra264": "11.0"}


@dataclass(frozen=True, kw_only=True)
class Pair:
    """A name and what was measured there."""

    name: str = ""
    value: float = 0.0


@dataclass(frozen=True, kw_only=True)
class PythonFacts:
    """The node's Python; ``torch`` is where torch would be imported from, None without one."""

    version: str | None = None
    executable: str | None = None
    environment: bool | None = None
    packages: dict[str, str] | None = None
    torch: str | None = None
    torch_changed: float | None = None


@dataclass(frozen=True, kw_only=True)
class HostFacts:
    """The system. ``machine`` is a digest of its machine-id: equal on cloned disks.

    ``ends_at_logout``: systemd ends what a user left running when the last session closes.
    """

    hostname: str | None = None
    machine: str | None = None
    boot: str | None = None
    arch: str | None = None
    kernel: str | None = None
    os: str | None = None
    os_version: str | None = None
    libc: str | None = None
    wsl: bool | None = None
    container: bool | None = None
    ends_at_logout: bool | None = None
    user: str | None = None
    groups: tuple[str, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class Clock:
    """The node's wall clock (seconds since 1970) when the probe began and ended.

    ``offset`` is node minus operator, right to ``within`` seconds; known once gathered.
    """

    begun: float | None = None
    ended: float | None = None
    monotonic: float | None = None
    synchronized: bool | None = None
    offset: float | None = None
    within: float | None = None


@dataclass(frozen=True, kw_only=True)
class Frequency:
    """A clock; ``locked`` when least equals most, as after jetson_clocks."""

    min: int | None = None
    max: int | None = None
    current: int | None = None
    locked: bool | None = None


@dataclass(frozen=True, kw_only=True)
class CpuFacts:
    """Cores ``present`` in the chip, ``online`` now (power modes switch some off), ``usable`` here.

    ``quota`` is the share that a container may use, in cores.
    """

    model: str | None = None
    online: int | None = None
    present: int | None = None
    usable: int | None = None
    quota: float | None = None
    clock: Frequency | None = None
    governor: str | None = None


@dataclass(frozen=True, kw_only=True)
class Swap:
    """One swap area; ``kind`` is zram (compressed memory), file or partition."""

    name: str = ""
    kind: str = ""
    size: int | None = None


@dataclass(frozen=True, kw_only=True)
class MemoryFacts:
    """Memory; ``available`` counts what the page cache would give back; ``cap``: a container's."""

    total: int | None = None
    available: int | None = None
    free: int | None = None
    swap_total: int | None = None
    swap_free: int | None = None
    cap: int | None = None
    swaps: tuple[Swap, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class Room:
    """How much a file system holds and has free for this user."""

    total: int | None = None
    free: int | None = None


@dataclass(frozen=True, kw_only=True)
class DiskFacts:
    """The disk of the workdir; when the folder is absent, of the nearest that exists."""

    workdir: str | None = None
    exists: bool | None = None
    writable: bool | None = None
    total: int | None = None
    free: int | None = None


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Soft limits of a session there; no limit is ``2**63 - 1``."""

    open_files: int | None = None
    processes: int | None = None
    locked_memory: int | None = None
    address_space: int | None = None


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What a session there inherits (NCCL_*, RANK, ...) and the lines of NCCL's own files."""

    environ: dict[str, str] | None = None
    nccl_conf: tuple[str, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class Interface:
    """A network interface; ``addresses`` as ``10.0.0.5/24``, ``kind`` a guess from its name.

    Kinds: ethernet, wifi, loopback, docker, bridge, veth, bond, vlan, dummy, tunnel, usb, can,
    other.
    """

    name: str = ""
    kind: str = "other"
    mac: str | None = None
    mtu: int | None = None
    up: bool | None = None
    addresses: tuple[str, ...] = ()
    speed: int | None = None
    duplex: str | None = None
    driver: str | None = None

    def ipv4(self) -> tuple[str, ...]:
        """IPv4 addresses without their prefix length."""
        found = (ipaddress.ip_interface(address).ip for address in self.addresses)
        return tuple(str(ip) for ip in found if ip.version == 4)


@dataclass(frozen=True, kw_only=True)
class Route:
    """One line of the main routing table."""

    to: str = ""
    interface: str = ""
    metric: int | None = None
    via: str | None = None


@dataclass(frozen=True, kw_only=True)
class Gpu:
    """A GPU as the driver tells; torch's own view is in ``TorchFacts.devices``."""

    name: str | None = None
    uuid: str | None = None
    memory: int | None = None
    used: int | None = None
    driver: str | None = None
    max_clock: int | None = None
    temperature: float | None = None
    integrated: bool | None = None


@dataclass(frozen=True, kw_only=True)
class JetsonFacts:
    """A Jetson: ``l4t`` such as 36.4.0, ``power_mode`` such as MAXN."""

    model: str | None = None
    soc: str | None = None
    l4t: str | None = None
    power_mode: str | None = None
    power_mode_id: int | None = None
    gpu_clock: Frequency | None = None

    @property
    def jetpack(self) -> str | None:
        """The JetPack that people know this L4T by."""
        known = (name for start, name in _JETPACK if self.l4t and self.l4t.startswith(start))
        return next(known, None)

    @property
    def capability(self) -> str | None:
        """CUDA compute capability of the chip, such as 8.7."""
        return _CAPABILITY.get(self.soc or "")


@dataclass(frozen=True, kw_only=True)
class HealthFacts:
    """Sensors: what throttles now (None: no such sensor) and over-current events since boot."""

    temperatures: tuple[Pair, ...] | None = None
    throttling: tuple[str, ...] | None = None
    over_current: tuple[Pair, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class ProcessFacts:
    """A process of shanty's. ``role``: agent, worker or task; ``agent``: who started a worker."""

    pid: int = 0
    start: int = 0
    age: float | None = None
    role: str = ""
    agent: int | None = None
    run: str | None = None
    command: str | None = None


@dataclass(frozen=True, kw_only=True)
class NodeFacts:
    """Everything that the probe found on one node."""

    python: PythonFacts | None = None
    host: HostFacts | None = None
    clock: Clock | None = None
    cpu: CpuFacts | None = None
    memory: MemoryFacts | None = None
    shm: Room | None = None
    disk: DiskFacts | None = None
    limits: Limits | None = None
    settings: Settings | None = None
    interfaces: tuple[Interface, ...] | None = None
    routes: tuple[Route, ...] | None = None
    resolves: tuple[str, ...] | None = None
    gpus: tuple[Gpu, ...] | None = None
    jetson: JetsonFacts | None = None
    health: HealthFacts | None = None
    processes: tuple[ProcessFacts, ...] | None = None
    unfinished: tuple[str, ...] = ()
    problems: dict[str, str] | None = None

    @property
    def unified(self) -> bool | None:
        """True when GPU and CPU share one memory, as on every Jetson; None when nobody tells."""
        if self.jetson is not None:
            return True
        kinds = {gpu.integrated for gpu in self.gpus or ()}
        return kinds.pop() if len(kinds) == 1 else None


def parse(text: str | bytes) -> NodeFacts:
    """The facts in what a probe printed; a shell's own greetings before them do no harm.

    Raises:
        FailedError: there are no facts in it.
    """
    return read(NodeFacts, answer_in(text, "probe"))


def answer_in(text: str | bytes, key: str) -> dict[str, Any]:
    """The last line of ``text`` that is a JSON object with ``key``.

    Raises:
        FailedError: there is none.
    """
    words = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
    for line in reversed(words.splitlines()):
        try:
            data = json.loads(line)
        except ValueError:
            continue
        if isinstance(data, dict) and key in data:
            return data
    raise FailedError(
        "the probe printed no facts", hint="check that the node's python starts: python3 --version"
    )


def read(kind: type[T], data: dict[str, Any]) -> T:
    """Build a dataclass of facts from plain data; what does not fit its field is left out."""
    found = {}
    for name, hint in _fields(kind).items():
        value = _fitting(hint, data.get(name))
        if value is not None:
            found[name] = value
    return kind(**found)


@cache
def _fields(kind: Any) -> dict[str, Any]:
    hints = get_type_hints(kind)
    return {field.name: hints[field.name] for field in fields(kind)}


def _fitting(hint: Any, value: Any) -> Any:
    """The value as its field wants it, else None."""
    if get_origin(hint) is types.UnionType:
        hint = next(a for a in get_args(hint) if a is not types.NoneType)
    origin = get_origin(hint)
    if origin is tuple and isinstance(value, list):
        items = (_fitting(get_args(hint)[0], item) for item in value)
        return tuple(item for item in items if item is not None)
    if origin is dict and isinstance(value, dict):
        return {str(k): str(v) for k, v in value.items()}
    if is_dataclass(hint) and isinstance(hint, type) and isinstance(value, dict):
        return read(hint, value)
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    exact = isinstance(hint, type) and type(value) is hint
    return value if exact else None
