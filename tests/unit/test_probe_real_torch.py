"""The torch probe on the torch that is installed here."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from piped import probe_torch

from shanty.cluster.torchfacts import parse_torch


def test_the_installed_torch_reduces_over_gloo() -> None:
    answer, _ = probe_torch(NCCL_SOCKET_IFNAME="eth9", GLOO_SOCKET_IFNAME="eth9", RANK="7")
    facts = parse_torch(json.dumps(answer))
    assert facts.version == str(torch.__version__)
    assert facts.cuda == torch.version.cuda
    assert facts.distributed is True
    assert facts.works("gloo", "cpu") is True
    assert [(found.name, found.works) for found in facts.imports or ()] == [
        ("torchvision", True),
        ("timm", True),
    ]
    if torch.version.cuda and not torch.cuda.is_available():
        assert facts.devices == ()
        assert facts.cuda_said
        assert facts.works("nccl", "cuda") is None
    assert facts.end == ""
    assert not [path for path in Path("/proc").glob("[0-9]*") if _is_ours(path)]


def _is_ours(process: Path) -> bool:
    """A child of the probe that is left."""
    try:
        return b"NCCL_SOCKET_IFNAME=eth9" in (process / "environ").read_bytes()
    except OSError:  # gone meanwhile
        return False
