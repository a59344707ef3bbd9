"""What the probe reads from boards and PCs on file (tests/facts)."""

from __future__ import annotations

from pathlib import Path

import pytest
from piped import probe, pythons

from nodes_on_file import NAMES, answer_of, facts_of, plant
from shanty.cluster.probe.board import power_mode
from shanty.cluster.probe.machine import count


def kinds(name: str) -> dict[str, str]:
    return {interface.name: interface.kind for interface in facts_of(name).interfaces or ()}


@pytest.mark.parametrize("name", NAMES)
def test_a_node_on_file_is_read_without_trouble(name: str) -> None:
    answer = answer_of(name)
    assert answer["problems"] == {}
    assert answer["unfinished"] == []


@pytest.mark.parametrize("python", pythons())
def test_a_tree_can_be_named_by_a_variable(python: str, tmp_path: Path) -> None:
    answer, _ = probe(python=python, SHANTY_PROBE_ROOT=str(plant("thor", tmp_path)))
    assert answer["jetson"]["l4t"] == "38.2.1"


@pytest.mark.parametrize(
    ("name", "soc", "l4t", "jetpack", "mode", "capability"),
    [
        ("agx_orin_jp61", "tegra234", "36.4.0", "6.1", ("MAXN", 0), "8.7"),
        ("orin_nano", "tegra234", "36.4.3", "6.2", ("15W", 0), "8.7"),
        ("xavier_jp5", "tegra194", "35.4.1", "5", ("MODE_30W_ALL", 3), "7.2"),
        ("thor", "tegra264", "38.2.1", "7.0", ("120W", 1), "11.0"),
    ],
)
def test_a_jetson_tells_chip_release_and_mode(
    name: str, soc: str, l4t: str, jetpack: str, mode: tuple[str, int], capability: str
) -> None:
    jetson = facts_of(name).jetson
    assert jetson is not None
    assert (jetson.soc, jetson.l4t, jetson.jetpack) == (soc, l4t, jetpack)
    assert (jetson.power_mode, jetson.power_mode_id) == mode
    assert jetson.capability == capability
    assert jetson.model
    assert "\0" not in jetson.model


@pytest.mark.parametrize("name", ["pc_gpu", "pc_cpu", "wsl"])
def test_a_pc_is_no_jetson(name: str) -> None:
    assert facts_of(name).jetson is None


@pytest.mark.parametrize(
    ("name", "most", "locked"),
    [
        ("agx_orin_jp61", 1_300_500_000, False),
        ("orin_nano", 624_750_000, True),
        ("xavier_jp5", 905_250_000, False),
        ("thor", 1_386_000_000, False),
    ],
)
def test_the_gpu_clock_is_found_under_each_boards_name(
    name: str, most: int, *, locked: bool
) -> None:
    jetson = facts_of(name).jetson
    assert jetson is not None
    assert jetson.gpu_clock is not None
    assert (jetson.gpu_clock.max, jetson.gpu_clock.locked) == (most, locked)


def test_cores_that_a_power_mode_switched_off_are_missing() -> None:
    cpu = facts_of("orin_nano").cpu
    assert cpu is not None
    assert (cpu.online, cpu.present) == (5, 6)


def test_a_sensor_that_is_off_is_absent_and_not_cold() -> None:
    health = facts_of("agx_orin_jp61").health
    assert health is not None
    names = [pair.name for pair in health.temperatures or ()]
    assert "cpu-thermal" in names
    assert not [name for name in names if name.startswith("cv")]


def test_throttling_and_over_current_are_counted_and_fans_are_not() -> None:
    hot, cool, pc = (facts_of(name).health for name in ("orin_nano", "agx_orin_jp61", "pc_gpu"))
    assert hot is not None
    assert cool is not None
    assert pc is not None
    assert hot.throttling == ("cpu-throttle-alert",)
    assert [(pair.name, pair.value) for pair in hot.over_current or ()][1:] == [
        ("oc2", 2),
        ("oc3", 7),
    ]
    assert cool.throttling == ()
    assert (pc.throttling, pc.over_current) == (None, None)


def test_swap_kinds_are_told_apart() -> None:
    memory, none = facts_of("orin_nano").memory, facts_of("thor").memory
    assert memory is not None
    assert none is not None
    assert [swap.kind for swap in memory.swaps or ()] == ["zram", "file"]
    assert none.swaps == ()


@pytest.mark.parametrize(
    ("name", "unified"),
    [("agx_orin_jp61", True), ("thor", True), ("pc_gpu", False), ("pc_cpu", None)],
)
def test_unified_memory_is_known_where_something_tells(name: str, *, unified: bool | None) -> None:
    assert facts_of(name).unified is unified


def test_a_gpu_that_says_not_available_has_no_zero() -> None:
    (orin,) = facts_of("agx_orin_jp61").gpus or ()
    (desk,) = facts_of("pc_gpu").gpus or ()
    assert (orin.memory, orin.max_clock, orin.uuid, orin.driver) == (None, None, None, "540.4.0")
    assert (desk.memory, desk.max_clock) == (12288 << 20, 2_130_000_000)
    assert facts_of("pc_cpu").gpus == ()
    assert [gpu.integrated for gpu in facts_of("orin_nano").gpus or ()] == [True]


def test_interfaces_are_told_apart() -> None:
    assert kinds("agx_orin_jp61") == {
        "lo": "loopback", "eno1": "ethernet", "l4tbr0": "bridge", "usb0": "usb", "can0": "can",
        "wlan0": "wifi", "docker0": "docker",
    }  # fmt: skip
    assert kinds("pc_gpu") == {
        "lo": "loopback", "enp5s0": "ethernet", "wlp6s0": "wifi", "virbr0": "bridge",
        "docker0": "docker", "br-0123456789ab": "docker", "vethab12cd3": "veth",
    }  # fmt: skip
    assert kinds("orin_nano")["tailscale0"] == "tunnel"


def test_a_slow_half_duplex_link_shows() -> None:
    links = {interface.name: interface for interface in facts_of("orin_nano").interfaces or ()}
    cable, wifi = links["enP8p1s0"], links["wlP1p1s0"]
    assert (cable.speed, cable.duplex, cable.mtu, cable.up) == (100, "half", 1500, True)
    assert (wifi.speed, wifi.duplex, wifi.up) == (None, None, False)
    assert cable.ipv4() == ("10.77.0.2",)


def test_routes_are_read_and_unreachable_ones_left_out() -> None:
    found = {(r.to, r.interface, r.metric, r.via) for r in facts_of("pc_gpu").routes or ()}
    assert found == {
        ("0.0.0.0/0", "enp5s0", 100, "10.77.0.254"),
        ("10.77.0.0/24", "enp5s0", 100, None),
        ("2001:db8::/64", "enp5s0", 256, None),
        ("::/0", "enp5s0", 100, "fe80::1"),
    }


def test_wsl_and_a_logind_that_ends_processes_are_noticed() -> None:
    wsl, desk, orin = (facts_of(name).host for name in ("wsl", "pc_gpu", "agx_orin_jp61"))
    assert wsl is not None
    assert desk is not None
    assert orin is not None
    assert (wsl.wsl, desk.wsl) == (True, False)
    assert (wsl.ends_at_logout, desk.ends_at_logout, orin.ends_at_logout) == (None, True, False)


def test_equal_machine_ids_have_equal_digests_and_do_not_show_the_id() -> None:
    found = [facts_of(name).host for name in NAMES]
    digests = {host.machine for host in found if host is not None}
    assert len(digests) == len(NAMES)
    assert not digests & {character * 16 for character in "abcdef1"}


def test_an_old_run_is_found_and_a_strange_process_is_not() -> None:
    found = facts_of("orin_nano").processes or ()
    assert [(p.pid, p.role, p.agent, p.age) for p in found] == [
        (4242, "agent", None, 4000.0),
        (4243, "worker", 4242, 3999.0),
    ]
    assert {process.run for process in found} == {"/home/user/runs/cats"}


@pytest.mark.parametrize(
    ("said", "mode"),
    [
        ("NV Power Mode: MAXN\n0\n", ("MAXN", 0)),
        ("NVPM WARN: fan mode is not set!\nNV Power Mode: MODE_15W\n2\n", ("MODE_15W", 2)),
        ("NV Power Mode: 50W", ("50W", None)),
        ("NVPM ERROR: Error opening /sys/fs\n", (None, None)),
        ("", (None, None)),
    ],
)
def test_a_power_mode_is_read_among_other_lines(
    said: str, mode: tuple[str | None, int | None]
) -> None:
    assert power_mode(said) == mode


@pytest.mark.parametrize(("ranges", "number"), [("0", 1), ("0-11", 12), ("0-3,6", 5)])
def test_cores_are_counted(ranges: str, number: int) -> None:
    assert count(ranges) == number
