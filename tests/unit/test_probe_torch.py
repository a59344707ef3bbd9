"""The torch probe on Pythons whose torch is absent, broken, hollow, hanging or crashing."""

from __future__ import annotations

import os
import textwrap
from pathlib import Path

import pytest
from piped import probe_torch, pythons

from nodes_on_file import on_file, torch_of
from shanty.cluster.probe.torch_program import cause

# What the probe may touch of a torch without distributed: nothing but is_available.
HOLLOW = """
    __version__ = "2.5.0a0+nv24.08"
    class version: cuda = None; hip = None
    class __config__:
        show = staticmethod(lambda: "USE_CUDA=ON, USE_NCCL=OFF, USE_GLOO=OFF")
    class distributed: is_available = staticmethod(lambda: False)
"""
CRASHING = """
    import os
    __version__ = "9.9"
    class version: cuda = None; hip = None
    class __config__: show = staticmethod(lambda: "")
    class distributed:
        ProcessGroupGloo = object
        HashStore = dict
        is_available = is_nccl_available = is_mpi_available = staticmethod(lambda: True)
        def init_process_group(*a, **k): print("gloo says ouch", flush=True); os.abort()
"""


def torch_in(folder: Path, source: str) -> str:
    (folder / "torch").mkdir()
    (folder / "torch" / "__init__.py").write_text(textwrap.dedent(source), "utf-8")
    return str(folder)


@pytest.mark.parametrize("python", pythons())
def test_a_hollow_distributed_is_not_touched(python: str, tmp_path: Path) -> None:
    path = torch_in(tmp_path, HOLLOW)
    answer, _ = probe_torch(python=python, PYTHONPATH=path)
    assert answer["end"] == ""
    assert answer["version"] == "2.5.0a0+nv24.08"
    assert answer["distributed"] is answer["nccl"] is answer["gloo"] is False
    assert answer["flags"] == ["USE_CUDA=ON", "USE_NCCL=OFF", "USE_GLOO=OFF"]
    assert "trials" not in answer


@pytest.mark.parametrize(
    ("line", "known"),
    [
        (
            "libcusparseLt.so.0: cannot open shared object file: No such file or directory",
            "library-missing",
        ),
        ("/x/libgomp.so.1: cannot allocate memory in static TLS block", "static-tls"),
    ],
)
def test_a_torch_that_does_not_load_says_why(line: str, known: str, tmp_path: Path) -> None:
    answer, _ = probe_torch(PYTHONPATH=torch_in(tmp_path, f"raise ImportError({line!r})"))
    assert (answer["end"], answer["cause"]) == ("error", known)
    assert line in answer["said"]


def test_an_absent_torch_is_named(tmp_path: Path) -> None:
    line = "raise ModuleNotFoundError(\"No module named 'torch'\")"
    answer, _ = probe_torch(PYTHONPATH=torch_in(tmp_path, line))
    assert answer["cause"] == "not-installed"


def test_a_torch_that_hangs_is_ended_at_the_limit(tmp_path: Path) -> None:
    source = f"""
        import os, time
        open({str(tmp_path / "pid")!r}, "w").write(str(os.getpid()))
        time.sleep(60)
    """
    path = torch_in(tmp_path, source)
    answer, seconds = probe_torch("--import-limit", "1", "--trial-limit", "0", PYTHONPATH=path)
    assert answer["end"] == "time"
    assert seconds < 10
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


def test_a_trial_that_crashes_takes_nothing_else_with_it(tmp_path: Path) -> None:
    answer, _ = probe_torch(PYTHONPATH=torch_in(tmp_path, CRASHING))
    (trial,) = answer["trials"]
    assert (trial["works"], trial["end"]) == (False, "signal 6")
    assert "gloo says ouch" in trial["said"]
    assert (answer["end"], answer["version"]) == ("", "9.9")


@pytest.mark.parametrize(
    ("words", "known"),
    [
        (
            "WARN nvmlDeviceGetP2PStatus(0,0,NVML_P2P_CAPS) failed: Not Supported\nncclSystemError",
            "nccl-stock-on-jetson",
        ),
        ("NCCL WARN Failed to open libnvidia-ml.so.1", "nccl-without-nvml"),
        ("ncclSystemError: System call failed", "nccl-system-error"),
        ("CUDA error: no kernel image is available for execution", "no-kernel-for-gpu"),
        ("NVML_SUCCESS == r INTERNAL ASSERT FAILED at CUDACachingAllocator.cpp", "out-of-memory"),
        ("A module that was compiled using NumPy 1.x cannot be run in\nNumPy 2", "numpy-2"),
        ("operator torchvision::nms does not exist", "torchvision-of-another-torch"),
        ("Distributed package doesn't have NCCL built in", "not-built"),
        ("RuntimeError: Found no NVIDIA driver on your system.", "no-driver"),
        ("something else", None),
        ("", None),
    ],
)
def test_known_troubles_are_recognised_by_their_text(words: str, known: str | None) -> None:
    assert cause(words) == known


@pytest.mark.parametrize("name", ["agx_orin_jp61", "xavier_jp5", "wsl"])
def test_the_causes_on_file_are_those_that_the_texts_give(name: str) -> None:
    answer = on_file(name)["torch"]
    told = [answer, *answer.get("trials", [])]
    assert any(part["cause"] for part in told)
    assert all(cause(part.get("said", "")) == part["cause"] for part in told)


def test_a_trial_is_asked_by_name() -> None:
    orin = torch_of("agx_orin_jp61")
    assert orin.works("gloo", "cuda") is True
    assert orin.works("nccl", "cuda") is False
    assert torch_of("orin_nano").works("gloo", "cpu") is None


@pytest.mark.parametrize(
    ("name", "capability", "fits"),
    [
        ("agx_orin_jp61", "8.7", True),
        ("pc_gpu", "8.7", False),  # a wheel for desktops on an Orin
        ("pc_gpu", "8.9", True),  # 8.6 runs on 8.9
        ("thor", "11.0", True),
        ("orin_nano", "12.0", True),  # by its PTX
        ("pc_cpu", "8.6", None),
    ],
)
def test_whether_a_wheel_fits_a_gpu(name: str, capability: str, *, fits: bool | None) -> None:
    assert torch_of(name).has_code_for(capability) is fits
