"""GPUs, and on a Jetson its model, release, power mode and health. All without root."""

from __future__ import annotations

import re
from typing import Any

from shanty.cluster.probe.machine import clock
from shanty.cluster.probe.tree import Tree, number, text

THROTTLE = re.compile(r"(cpu|gpu|soc\d|cv\d)-throttle-alert|hot-surface-alert")
GPU_CLOCK = re.compile(r"\.(gpu|ga10b|gv11b|gp10b)$|^gpu-gpc-0$")
GPU_QUERY = "name,uuid,memory.total,memory.used,driver_version,clocks.max.sm,temperature.gpu"


def read_gpus(tree: Tree) -> list[dict[str, Any]] | None:
    """NVIDIA's GPUs; [] when there is none, None when one may be there but nobody tells."""
    tegra = soc(tree)
    said = tree.said("nvidia-smi", "--query-gpu=" + GPU_QUERY, "--format=csv,noheader,nounits")
    if said and said.count(",") >= GPU_QUERY.count(","):
        return [gpu(line, integrated=bool(tegra)) for line in said.strip().splitlines()]
    if tegra:
        return [{"name": f"{tegra} integrated", "integrated": True}]
    found = []
    for path in tree.find("proc/driver/nvidia/gpus/*/information"):
        lines = dict(re.findall(r"^(.+?):\s*(.*)$", text(path) or "", re.M))
        found.append({"name": lines.get("Model"), "uuid": lines.get("GPU UUID")})
    return found if found or not nvidia_on_pci(tree) else None


def nvidia_on_pci(tree: Tree) -> bool:
    """A graphics device of NVIDIA's is plugged in, driver or not."""
    vendors = [p for p in tree.find("sys/bus/pci/devices/*/vendor") if text(p) == "0x10de"]
    return any((text(p.parent / "class") or "").startswith("0x03") for p in vendors)


def gpu(line: str, *, integrated: bool) -> dict[str, Any]:
    """One line of nvidia-smi's table; what it does not know is ``[N/A]`` there."""
    cells = [cell.strip() for cell in line.split(",")]
    digits = [int(cell) if cell.isdigit() else None for cell in cells]
    memory, used = (None if n is None else n << 20 for n in digits[2:4])
    return {
        "name": cells[0],
        "uuid": cells[1] if cells[1].startswith("GPU-") else None,
        "memory": memory,
        "used": used,
        "driver": cells[4] if cells[4][:1].isdigit() else None,
        "max_clock": None if digits[5] is None else digits[5] * 1_000_000,
        "temperature": digits[6],
        # without memory of its own and no Tegra (a GB10, say): torch will tell
        "integrated": True if integrated else None if memory is None else False,
    }


def soc(tree: Tree) -> str | None:
    """``tegra234`` on an Orin; None on what is no Jetson."""
    found = re.search(r"tegra\d+", tree.text("proc/device-tree/compatible") or "")
    return found.group() if found else None


def read_jetson(tree: Tree) -> dict[str, Any] | None:
    """None on what is no Jetson."""
    chip, release = soc(tree), tree.text("etc/nv_tegra_release")
    kernel = tree.text("proc/sys/kernel/osrelease") or ""
    if not (chip or release or kernel.endswith("-tegra")):
        return None
    mode, mode_id = power_mode(tree.said("nvpmodel", "-q") or "")
    folders = [p for p in tree.find("sys/class/devfreq/*") if GPU_CLOCK.search(p.name)]
    return {
        "model": tree.text("proc/device-tree/model"),
        "soc": chip,
        "l4t": l4t(release or "") or l4t_of_package(tree),
        "power_mode": mode,
        "power_mode_id": mode_id,
        "gpu_clock": clock(folders, "", 1),
    }


def l4t(release: str) -> str | None:
    """``36.4.0`` from ``# R36 (release), REVISION: 4.0, GCID: ...``."""
    found = re.match(r"# R(\d+) \(release\), REVISION: ([\d.]+)", release)
    return ".".join(found.groups()) if found else None


def l4t_of_package(tree: Tree) -> str | None:
    """The same from dpkg's records: a container or a bare root file system lacks the file."""
    status = tree.text("var/lib/dpkg/status") or ""
    found = re.search(
        r"^Package: nvidia-l4t-core\n(?:\S.*\n| .*\n)*?Version: ([\d.]+)", status, re.M
    )
    return found.group(1) if found else None


def power_mode(said: str) -> tuple[str | None, int | None]:
    """Name and number of ``NV Power Mode: MAXN`` and the line after it; other lines vary."""
    found = re.search(r"NV Power Mode\s*:\s*(\S.*?)\s*$(?:\s*^(\d+)\s*$)?", said, re.M)
    if not found:
        return None, None
    return found.group(1), int(found.group(2)) if found.group(2) else None


def read_health(tree: Tree) -> dict[str, Any]:
    """Temperatures, what throttles now, and how often over-current was seen since boot."""
    alerts = [(text(p / "type") or "", p) for p in tree.find("sys/class/thermal/cooling_device*")]
    alerts = [(kind, number(p / "cur_state")) for kind, p in alerts if THROTTLE.fullmatch(kind)]
    return {
        "temperatures": temperatures(tree),
        "throttling": [kind for kind, state in alerts if state] if alerts else None,
        "over_current": over_current(tree),
    }


def temperatures(tree: Tree) -> list[dict[str, Any]]:
    """A sensor whose unit is switched off is unreadable, or far below zero: it is left out."""
    found = []
    for folder in tree.find("sys/class/thermal/thermal_zone*"):
        value = number(folder / "temp")
        if value is not None and value > -100_000:
            found.append({"name": text(folder / "type") or folder.name, "value": value / 1000})
    return found


def over_current(tree: Tree) -> list[dict[str, Any]] | None:
    """How often each over-current alarm fired since boot; None without such counters."""
    folders = [p.parent for p in tree.find("sys/class/hwmon/*/name") if text(p) == "soctherm_oc"]
    counters = sorted(p for folder in folders for p in folder.glob("oc*_event_cnt"))
    seen = [(path.name[: -len("_event_cnt")], number(path)) for path in counters]
    known = [{"name": name, "value": value} for name, value in seen if value is not None]
    return known or None
