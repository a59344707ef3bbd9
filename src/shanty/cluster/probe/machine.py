"""The machine itself: Python, system, processors, memory, disk, limits, settings."""

from __future__ import annotations

import grp
import hashlib
import os
import pwd
import re
import resource
import sys
from importlib import metadata, util
from pathlib import Path
from typing import Any

from shanty.cluster.probe.tree import Tree, number, text

UNLIMITED = (1 << 63) - 1
PACKAGES = (
    "torch",
    "torchvision",
    "timm",
    "numpy",
    "pillow",
    "safetensors",
    "simplejpeg",
    "shanty",
)
VARIABLE = re.compile(
    r"(NCCL|GLOO|TP|CUDA|TORCH|TORCHELASTIC|PYTORCH|OMP|MASTER|SLURM|OMPI|UCX)_\w+"
    r"|RANK|WORLD_SIZE|LOCAL_RANK|LOCAL_WORLD_SIZE|GROUP_RANK|NODE_RANK|PYTHONPATH|LD_LIBRARY_PATH"
)


def read_python(_tree: Tree) -> dict[str, Any]:
    """This Python, and the packages that matter without importing them."""
    packages = {}
    for name in PACKAGES:
        try:
            packages[name] = metadata.version(name)
        except (metadata.PackageNotFoundError, OSError, ValueError):
            continue
    torch = util.find_spec("torch")
    stamp = Path(torch.origin) if torch and torch.origin else None
    return {
        "version": ".".join(map(str, sys.version_info[:3])),
        "executable": sys.executable,
        "environment": sys.prefix != sys.base_prefix,
        "packages": packages,
        "torch": str(stamp) if stamp else None,
        "torch_changed": stamp.stat().st_mtime if stamp else None,
    }


def read_host(tree: Tree) -> dict[str, Any]:
    """Names, kernel, system, user."""
    release = dict(re.findall(r'^(\w+)="?(.*?)"?$', tree.text("etc/os-release") or "", re.M))
    kernel = tree.text("proc/sys/kernel/osrelease")
    machine = tree.text("etc/machine-id") or tree.text("var/lib/dbus/machine-id")
    return {
        "hostname": os.uname().nodename,
        "machine": hashlib.sha256(machine.encode()).hexdigest()[:16] if machine else None,
        "boot": tree.text("proc/sys/kernel/random/boot_id"),
        "arch": os.uname().machine,
        "kernel": kernel,
        "os": release.get("PRETTY_NAME"),
        "os_version": release.get("VERSION_ID"),
        "libc": libc() if tree.live else None,
        "wsl": "microsoft" in kernel.lower() if kernel else None,
        "container": any((tree.root / n).exists() for n in (".dockerenv", "run/.containerenv")),
        "ends_at_logout": ends_at_logout(tree),
        **read_user(),
    }


def libc() -> str | None:
    """``glibc 2.35``; None where it is another library."""
    try:
        return os.confstr("CS_GNU_LIBC_VERSION")
    except ValueError:
        return None


def read_user() -> dict[str, Any]:
    """Who we are here; a user or group without a name is given by number."""
    groups = []
    for number_ in sorted({*os.getgroups(), os.getegid()}):
        try:
            groups.append(grp.getgrgid(number_).gr_name)
        except KeyError:
            groups.append(str(number_))
    try:
        return {"user": pwd.getpwuid(os.getuid()).pw_name, "groups": groups}
    except KeyError:
        return {"user": str(os.getuid()), "groups": groups}


def ends_at_logout(tree: Tree) -> bool | None:
    """Whether systemd-logind ends what a user left running (logind.conf(5)); None: no logind."""
    places = ["etc/systemd/logind.conf", "etc/systemd/logind.conf.d/*.conf"]
    texts = [text(path) or "" for place in places for path in tree.find(place)]
    if not texts:
        return None
    said = re.findall(r"^KillUserProcesses\s*=\s*(\w+)", "\n".join(texts), re.M)
    lingers = (tree.root / "var/lib/systemd/linger" / str(read_user()["user"])).exists()
    return bool(said) and said[-1].lower() in ("yes", "true", "1", "on") and not lingers


def read_cpu(tree: Tree) -> dict[str, Any]:
    """Cores and their clocks."""
    online = tree.text("sys/devices/system/cpu/online")
    present = tree.text("sys/devices/system/cpu/present")
    quota = (tree.text("sys/fs/cgroup/cpu.max") or "max").split()
    model = re.search(r"^model name\s*:\s*(.+)$", tree.text("proc/cpuinfo") or "", re.M)
    return {
        "model": model.group(1) if model else None,
        "online": count(online) if online else None,
        "present": count(present) if present else None,
        "usable": len(os.sched_getaffinity(0)) if tree.live else None,
        "quota": int(quota[0]) / int(quota[1]) if quota[0] != "max" else None,
        "clock": clock(tree.find("sys/devices/system/cpu/cpufreq/policy*"), "scaling_", 1000),
        "governor": tree.text("sys/devices/system/cpu/cpufreq/policy0/scaling_governor"),
    }


def count(ranges: str) -> int:
    """How many numbers ``0-3,6`` names."""
    pairs = [part.split("-") for part in ranges.split(",")]
    return sum(int(pair[-1]) - int(pair[0]) + 1 for pair in pairs)


def clock(folders: list[Path], start: str, unit: int) -> dict[str, Any] | None:
    """Frequencies over all folders; ``locked``: least equals most, as jetson_clocks does."""
    ends = ("min_freq", "max_freq", "cur_freq")
    seen = [[number(folder / (start + end)) for end in ends] for folder in folders]
    known = [(least, most) for least, most, _ in seen if least is not None and most is not None]
    if not known:
        return None
    now = [value for _, _, value in seen if value is not None]
    return {
        "min": min(least for least, _ in known) * unit,
        "max": max(most for _, most in known) * unit,
        "current": max(now) * unit if now else None,
        "locked": all(least == most for least, most in known),
    }


def read_memory(tree: Tree) -> dict[str, Any]:
    """Memory and swap."""
    lines = re.findall(r"^(\w+):\s+(\d+) kB", tree.text("proc/meminfo") or "", re.M)
    found = {name: int(value) * 1024 for name, value in lines}
    cap = tree.text("sys/fs/cgroup/memory.max")
    names = {"total": "MemTotal", "available": "MemAvailable", "free": "MemFree"}
    names.update(swap_total="SwapTotal", swap_free="SwapFree")
    rows = [line.split() for line in (tree.text("proc/swaps") or "").splitlines()[1:]]
    return {
        **{name: found.get(key) for name, key in names.items()},
        "cap": int(cap) if cap and cap.isdigit() else None,
        "swaps": [
            {"name": r[0], "kind": "zram" if "zram" in r[0] else r[1], "size": int(r[2]) * 1024}
            for r in rows
        ],
    }


def read_disk(tree: Tree) -> dict[str, Any]:
    """The workdir's disk; when it is absent, the disk of its nearest parent."""
    exists = tree.workdir.is_dir()
    near = next(p for p in (tree.workdir, *tree.workdir.parents) if p.is_dir())
    return {
        "workdir": str(tree.workdir),
        "exists": exists,
        "writable": os.access(str(near), os.W_OK | os.X_OK),
        **room(near),
    }


def read_shm(tree: Tree) -> dict[str, Any] | None:
    """Shared memory, which data loaders need."""
    return room(tree.root / "dev/shm") if (tree.root / "dev/shm").is_dir() else None


def room(path: Path) -> dict[str, Any]:
    """Bytes of a file system: all, and free for this user."""
    found = os.statvfs(str(path))
    return {"total": found.f_blocks * found.f_frsize, "free": found.f_bavail * found.f_frsize}


def read_limits(_tree: Tree) -> dict[str, Any]:
    """This session's own (soft) limits; no limit is a very large number."""
    names = {"open_files": resource.RLIMIT_NOFILE, "processes": resource.RLIMIT_NPROC}
    names.update(locked_memory=resource.RLIMIT_MEMLOCK, address_space=resource.RLIMIT_AS)
    soft = {name: resource.getrlimit(which)[0] for name, which in names.items()}
    return {n: UNLIMITED if v == resource.RLIM_INFINITY else v for n, v in soft.items()}


def read_settings(tree: Tree) -> dict[str, Any]:
    """What torch and NCCL would take from the environment and from NCCL's own files."""
    conf = [tree.text("etc/nccl.conf"), text(Path("~/.nccl.conf").expanduser())]
    lines = [line.strip() for part in conf for line in (part or "").splitlines()]
    return {
        "environ": {n: v for n, v in sorted(os.environ.items()) if VARIABLE.fullmatch(n)},
        "nccl_conf": [line for line in lines if line and not line.startswith("#")],
    }
