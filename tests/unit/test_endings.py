"""What a rank's error is taken for: a lost peer, memory that ran out, or the cause itself."""

from __future__ import annotations

import pytest
import torch

from shanty.comm.world import is_lost_peer, is_out_of_memory

JETSON = "NVML_SUCCESS == r INTERNAL ASSERT FAILED at CUDACachingAllocator.cpp:1131"


@pytest.mark.parametrize(
    "error", [torch.cuda.OutOfMemoryError("CUDA out of memory"), RuntimeError(JETSON)]
)
def test_memory_that_ran_out_is_known_also_in_disguise(error: Exception) -> None:
    assert is_out_of_memory(error)
    assert not is_lost_peer(error)


@pytest.mark.parametrize(
    "text", ["[pair.cc:561] Connection closed by peer [10.0.0.2]:4242", "Wait timeout"]
)
def test_a_lost_peer_is_a_consequence(text: str) -> None:
    assert is_lost_peer(RuntimeError(text))
    assert not is_out_of_memory(RuntimeError(text))


def test_other_errors_are_neither() -> None:
    error = RuntimeError("mat1 and mat2 shapes cannot be multiplied")
    assert not is_lost_peer(error)
    assert not is_out_of_memory(error)
    assert not is_lost_peer(ValueError("Connection closed by peer"))
