"""How this node's torch was built and what of it works, as one line of JSON.

The order matters: NVIDIA's Jetson wheels may lack torch.distributed, and then nothing of that
module but ``is_available`` exists. That a backend was compiled in says little (stock NCCL does not
start on a Jetson), so each one reduces a tensor for real, in a process of its own. The process that
forks never touches CUDA: a child could not use it any more.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from datetime import timedelta
from importlib import import_module
from typing import Any

from shanty.cluster.probe.forked import Say, forked, last_words

FORMAT = 1
IMPORT_LIMIT, TRIAL_LIMIT = 60.0, 30.0
# The first text that is found names the cause; the texts are NCCL's, torch's and the loader's.
CAUSES = (
    ("nccl-stock-on-jetson", r"nvmlDeviceGetP2PStatus\(.*failed: Not Supported"),
    ("nccl-without-nvml", r"Failed to open libnvidia-ml"),
    ("nccl-two-ranks-one-gpu", r"Duplicate GPU detected"),
    ("no-interface", r"no socket interface found|Unable to find (address|interface)"),
    ("no-kernel-for-gpu", r"no kernel image is available"),
    ("out-of-memory", r"NVML_SUCCESS == r INTERNAL ASSERT|out of memory|NvMapMemAlloc\w* error 12"),
    ("no-driver", r"Found no NVIDIA driver"),
    ("driver-too-old", r"driver on your system is too old|driver version is insufficient"),
    ("numpy-2", r"compiled using NumPy 1\.x cannot be run in"),
    ("static-tls", r"cannot allocate memory in static TLS block"),
    ("library-missing", r"(lib[\w.+-]+\.so[\w.]*): cannot open shared object file"),
    ("torchvision-of-another-torch", r"operator torchvision::nms does not exist"),
    ("not-installed", r"No module named '(torch|torchvision|timm)'"),
    ("not-built", r"(?i)not (built|compiled)[ -]?(in|with)|doesn't have \w+ built in"),
    ("nccl-system-error", r"unhandled system error|ncclSystemError"),
)


def main() -> int:
    """Print what is known when all is tried, or when the limit ends it."""
    parser = argparse.ArgumentParser(prog="probe-torch")
    parser.add_argument("--import-limit", type=float, default=IMPORT_LIMIT)
    parser.add_argument("--trial-limit", type=float, default=TRIAL_LIMIT)
    asked = parser.parse_args()
    for name in [n for n in os.environ if n.startswith(("TORCHELASTIC_", "NCCL_", "GLOO_"))]:
        del os.environ[name]  # a person's own settings are not what is tried here

    def work(say: Say) -> None:
        examine(say, asked.trial_limit)

    told = forked(work, asked.import_limit + 6 * asked.trial_limit)
    facts = {"probe_torch": FORMAT, **told.facts, "end": told.end, "seconds": told.seconds}
    if told.end:
        facts["said"] = last_words(f"{told.printed}\n{told.facts.get('error', '')}")
    facts["cause"] = cause(f"{told.printed}\n{told.facts.get('error', '')}")
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()
    return 0


def examine(say: Say, limit: float) -> None:
    """In the first child: import torch once, then try one thing after the other."""
    torch = import_module("torch")
    built = build_of(torch)
    say(built)
    pairs = [("gloo", "cpu")] if built["distributed"] else []
    if built["cuda"] or built["hip"]:
        found = forked(lambda tell: devices(torch, tell), limit)
        words = f"{found.printed}\n{found.facts.pop('error', '')}"
        say({**found.facts, "cuda_said": last_words(words), "cuda_cause": cause(words)})
        if found.facts.get("devices") and built["distributed"]:
            pairs += [("gloo", "cuda"), ("nccl", "cuda")]
    trials: list[dict[str, Any]] = []
    for backend, device in pairs:
        trials.append(tried(torch, backend, device, limit))
        say({"trials": trials})
    say({"imports": imports(limit)})


def build_of(torch: Any) -> dict[str, Any]:
    """Facts of the wheel. Nothing here starts CUDA."""
    distributed = getattr(torch, "distributed", None)
    has = distributed is not None and bool(distributed.is_available())
    flags = re.findall(r"\b(USE_\w+)=(\w+)", torch.__config__.show())
    return {
        "version": str(torch.__version__),
        "path": torch.__file__,
        "cuda": torch.version.cuda,
        "hip": getattr(torch.version, "hip", None),
        "distributed": has,
        "nccl": has and bool(torch.distributed.is_nccl_available()),
        "gloo": has and hasattr(torch.distributed, "ProcessGroupGloo"),
        "mpi": has and bool(torch.distributed.is_mpi_available()),
        "nccl_version": nccl_version(torch),
        "flags": [f"{name}={value}" for name, value in flags],
    }


def nccl_version(torch: Any) -> str | None:
    """Of the NCCL that torch carries; None when there is none."""
    try:
        return ".".join(map(str, torch.cuda.nccl.version()))
    except Exception:  # noqa: BLE001 - absent in one of many ways, by version and build
        return None


def devices(torch: Any, say: Say) -> None:
    """What the wheel has code for, every CUDA device, and whether that really computes."""
    arches = getattr(torch._C, "_cuda_getArchFlags", None)  # noqa: SLF001 - get_arch_list is [] without a device
    say({"arches": ((arches() if arches else None) or "").split()})
    found: list[dict[str, Any]] = []
    for index in range(torch.cuda.device_count()):
        seen = torch.cuda.get_device_properties(index)
        entry = {
            "name": seen.name,
            "capability": f"{seen.major}.{seen.minor}",
            "memory": seen.total_memory,
            "integrated": bool(seen.is_integrated) if hasattr(seen, "is_integrated") else None,
        }
        try:
            ones = torch.ones(2, device=f"cuda:{index}") + 1
            found.append({**entry, "works": ones.sum().item() == 4, "said": ""})
        except RuntimeError as error:
            found.append({**entry, "works": False, "said": str(error)[:300]})
    say({"devices": found})
    if not found:
        torch.zeros(1, device="cuda")  # fails, and says why


def tried(torch: Any, backend: str, device: str, limit: float) -> dict[str, Any]:
    """One rank reduces four ones over the backend; what came of it."""

    def work(say: Say) -> None:
        # Loopback: what is tried is the backend, not the node's names and cables.
        os.environ.update(GLOO_SOCKET_IFNAME="lo", NCCL_SOCKET_IFNAME="=lo", NCCL_DEBUG="WARN")
        dist = torch.distributed
        dist.init_process_group(
            backend,
            store=dist.HashStore(),
            rank=0,
            world_size=1,
            timeout=timedelta(seconds=limit),
        )
        ones = torch.ones(4, device=device)
        dist.all_reduce(ones)
        say({"works": ones.sum().item() == 4})
        dist.destroy_process_group()

    told = forked(work, limit)
    words = f"{told.printed}\n{told.facts.get('error', '')}"
    works = told.facts.get("works") is True
    return {
        "backend": backend,
        "device": device,
        "works": works,
        "patched": works and "Failed to find nvml device" in words,  # NCCL made for Jetson
        "end": told.end,
        "cause": None if works else cause(words),
        "said": "" if works else last_words(words),
        "seconds": told.seconds,
    }


def imports(limit: float) -> list[dict[str, Any]]:
    """Whether the packages that need torch import, one after the other in one child."""

    def work(say: Say) -> None:
        for name in ("torchvision", "timm"):
            try:
                version = str(getattr(import_module(name), "__version__", ""))
                say({name: {"name": name, "works": True, "version": version}})
            except Exception as error:  # noqa: BLE001 - a broken package raises anything
                words = f"{type(error).__name__}: {error}"
                why = {"cause": cause(words), "said": last_words(words)}
                say({name: {"name": name, "works": False, **why}})

    told = forked(work, limit)
    found = [told.facts[n] for n in ("torchvision", "timm") if n in told.facts]
    if told.end and len(found) < 2:  # crashed, or too slow
        name, words = ("torchvision", "timm")[len(found)], told.printed
        why = {"cause": cause(words), "said": last_words(words) or f"ended by {told.end}"}
        found.append({"name": name, "works": False, **why})
    return found


def cause(words: str) -> str | None:
    """The known trouble that these words tell of; None for an unknown one."""
    for name, pattern in CAUSES:
        if re.search(pattern, words):
            return name
    return None
