"""Task ``preflight``: what this node can train with, asked before anything is started."""

from __future__ import annotations

import ctypes
import os
import platform
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Any

from shanty.errors import RefusedError
from shanty.task.models import knows, nearest_models

_NEEDED = ("torch", "torchvision", "timm")


def run(request: dict[str, Any]) -> dict[str, Any]:
    """Versions, devices, cores, and whether timm knows the ``model``.

    Request: model (""), full (true: import torch and ask it; false: the GPU driver is asked for
    its devices, ``distributed`` stays null, and the answer comes in a tenth of a second).

    Raises:
        RefusedError: torch, torchvision or timm is not installed.
    """
    lacking = [name for name in _NEEDED if find_spec(name) is None]
    if lacking:
        raise RefusedError(
            f"this Python has no {', '.join(lacking)}",
            hint="pip install 'shanty[train]' (on a Jetson: the maker's own torch wheels)",
        )
    full = request.get("full", True)
    answer: dict[str, Any] = {
        "versions": {"python": platform.python_version(), **{n: _version(n) for n in _NEEDED}},
        "cores": len(os.sched_getaffinity(0)),
        "cuda": torch_devices() if full else driver_devices(),
        "distributed": backends() if full else None,
    }
    if request.get("model"):
        answer["model"] = _model(request["model"])
    return answer


def torch_devices() -> list[str]:
    """Names of the GPUs that torch can use, by index."""
    import torch  # noqa: PLC0415 - seconds long; the fast answer does without

    if not torch.cuda.is_available():
        return []
    return [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]


def driver_devices() -> list[str]:
    """Names of the GPUs that the CUDA driver shows (CUDA_VISIBLE_DEVICES counts), by index.

    Source: CUDA driver API, cuInit, cuDeviceGetCount, cuDeviceGetName.
    """
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return []
    count = ctypes.c_int(0)
    if driver.cuInit(0) != 0 or driver.cuDeviceGetCount(ctypes.byref(count)) != 0:
        return []
    name = ctypes.create_string_buffer(256)
    names = []
    for index in range(count.value):
        driver.cuDeviceGetName(name, len(name), index)
        names.append(name.value.decode(errors="replace"))
    return names


def backends() -> dict[str, bool]:
    """Which ways of talking between ranks this torch was built with.

    ``available`` comes first: some makers' wheels have no distributed part at all, and asking
    such a one for gloo would be an error.
    """
    import torch.distributed as dist  # noqa: PLC0415 - seconds long

    if not dist.is_available():
        return {"available": False, "gloo": False, "nccl": False}
    return {"available": True, "gloo": dist.is_gloo_available(), "nccl": dist.is_nccl_available()}


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:  # put there by hand, without its metadata
        return "unknown"


def _model(name: str) -> dict[str, Any]:
    known = knows(name)
    return {"name": name, "known": known, "nearest": [] if known else nearest_models(name)}
