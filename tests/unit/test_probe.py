"""The probe on this machine, piped to several Pythons: standard library only, and quick."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from piped import pipe, probe, program, pythons

import shanty
from reach import imported
from shanty.cluster.probe.program import PARTS
from shanty.cluster.probe.text import PACKAGE, probe_text
from shanty.record.process import identify

FILES = sorted((Path(shanty.__file__).parent / "cluster" / "probe").glob("*.py"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_part_imports_pythons_own_library_only(file: Path) -> None:
    own = tuple(f"{PACKAGE}.{path.stem}" for path in FILES)
    foreign = [name for name in imported(file) if not name.startswith(own) and name != PACKAGE]
    assert {name.split(".")[0] for name in foreign} <= set(sys.stdlib_module_names)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_part_is_python_3_8(file: Path) -> None:
    ast.parse(file.read_text("utf-8"), feature_version=(3, 8))


@pytest.mark.parametrize("python", pythons())
def test_piped_without_site_packages_it_answers_within_2_s(python: str) -> None:
    tries = [pipe(probe_text(), "-I", "-S", "-", python=python) for _ in range(3)]
    answer = tries[0][0]
    assert min(seconds for _, seconds in tries) < 2
    assert set(PARTS) <= set(answer)
    assert answer["unfinished"] == []
    assert answer["problems"] == {}


@pytest.mark.parametrize("python", pythons())
def test_the_facts_are_those_of_this_machine(python: str) -> None:
    answer, _ = probe("--workdir", "/", python=python)
    names = {interface["name"]: interface for interface in answer["interfaces"]}
    assert answer["host"]["hostname"] == os.uname().nodename
    assert answer["host"]["arch"] == os.uname().machine
    assert answer["cpu"]["usable"] == len(os.sched_getaffinity(0))
    assert answer["memory"]["total"] > answer["memory"]["available"] > 0
    assert names["lo"]["kind"] == "loopback"
    assert "127.0.0.1/8" in names["lo"]["addresses"]
    assert answer["disk"]["workdir"] == "/"
    assert answer["disk"]["free"] > 0
    assert answer["jetson"] is None
    assert abs(answer["clock"]["ended"] - time.time()) < 60


def test_it_finds_packages_without_importing_them(tmp_path: Path) -> None:
    (tmp_path / "timm-1.0.31.dist-info").mkdir()
    (tmp_path / "timm-1.0.31.dist-info" / "METADATA").write_text("Name: timm\nVersion: 1.0.31\n")
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("raise SystemExit('imported')", "utf-8")
    answer, _ = probe(PYTHONPATH=str(tmp_path))
    assert answer["python"]["packages"]["timm"] == "1.0.31"
    assert answer["python"]["torch"] == str(tmp_path / "torch" / "__init__.py")
    assert answer["python"]["torch_changed"] > 0
    assert answer["python"]["executable"] == sys.executable


def test_a_json_module_in_the_home_folder_is_not_taken_for_pythons(tmp_path: Path) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit('the wrong json')", "utf-8")
    answer, _ = pipe(probe_text(), "-", cwd=tmp_path)
    assert answer["disk"]["workdir"] == str(tmp_path)


def test_a_workdir_that_is_absent_is_said_so(tmp_path: Path) -> None:
    answer, _ = probe("--workdir", str(tmp_path / "not" / "there"))
    assert answer["disk"]["exists"] is False
    assert answer["disk"]["free"] > 0


def test_a_program_that_hangs_costs_its_facts_only(tmp_path: Path) -> None:
    path = program(tmp_path, "nvidia-smi", "exec sleep 30")
    answer, seconds = probe(PATH=path)
    assert seconds < 2
    assert "timed out" in answer["problems"]["nvidia-smi"]
    assert answer["interfaces"]
    assert answer["unfinished"] == []


def test_a_program_that_fails_is_quoted(tmp_path: Path) -> None:
    script = "echo NVIDIA-SMI has failed: no driver; exit 9"
    answer, _ = probe(PATH=program(tmp_path, "nvidia-smi", script))
    assert answer["problems"]["nvidia-smi"] == "NVIDIA-SMI has failed: no driver"


def test_a_file_that_blocks_costs_its_part_only(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    os.mkfifo(tmp_path / "etc" / "os-release")
    answer, seconds = probe("--root", str(tmp_path))
    assert answer["unfinished"] == ["host"]
    assert "memory" in answer
    assert seconds < 3


def test_a_file_of_nonsense_costs_its_part_only(tmp_path: Path) -> None:
    online = tmp_path / "sys/devices/system/cpu/online"
    online.parent.mkdir(parents=True)
    online.write_text("all of them", "utf-8")
    answer, _ = probe(SHANTY_PROBE_ROOT=str(tmp_path))
    assert answer["cpu"] is None
    assert "ValueError" in answer["problems"]["cpu"]
    assert answer["memory"]["total"] is None


def test_without_ip_the_kernel_is_asked(tmp_path: Path) -> None:
    with_ip, _ = probe()
    without, _ = probe(PATH=program(tmp_path, "ip", "exit 1"))
    assert "ip" in without["problems"]
    for before, after in zip(with_ip["interfaces"], without["interfaces"], strict=True):
        assert set(after["addresses"]) <= set(before["addresses"])
        keys = ("name", "mtu", "up", "speed")
        assert [after[key] for key in keys] == [before[key] for key in keys]
    assert any("127.0.0.1/8" in i["addresses"] for i in without["interfaces"])


def test_what_a_run_left_is_found_and_can_be_proven() -> None:
    command = [sys.executable, "-c", "input()", "-m", "x", "/runs/cats/run.json"]
    env = os.environ | {"SHANTY_NODE": "n1", "SHANTY_AGENT_PID": "77"}
    with subprocess.Popen(command, env=env, stdin=subprocess.PIPE) as process:
        time.sleep(0.2)  # until it is the Python and no longer this one
        answer, _ = probe()
        known = identify(process.pid)
        process.communicate(b"\n")
    mine = next(found for found in answer["processes"] if found["pid"] == process.pid)
    assert known is not None
    assert (mine["start"], answer["host"]["boot"]) == (known.start, known.boot)
    assert (mine["role"], mine["agent"], mine["run"]) == ("worker", 77, "/runs/cats")
    assert 0 <= mine["age"] < 60


def test_inherited_variables_are_told_and_secrets_are_not() -> None:
    env = {"NCCL_SOCKET_IFNAME": "eth0", "RANK": "3", "MASTER_ADDR": "h", "AWS_SECRET": "x"}
    answer, _ = probe(**env)
    told = answer["settings"]["environ"]
    assert env.items() - told.items() == {("AWS_SECRET", "x")}
    assert "AWS_SECRET" not in told
