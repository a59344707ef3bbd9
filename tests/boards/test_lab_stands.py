"""The lab stands, its boards are boards, and it goes without a trace."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest
from desk import Desk, within


def test_boards_reach_each_other_and_not_the_machines_network(boards: Desk) -> None:
    assert boards.ping("n1", "10.77.0.2")
    assert boards.ping("n3", "10.77.0.1")
    assert boards.ping("op", "10.77.0.3")
    routes = boards.on("n1", "ip", "-4", "route").stdout
    assert "default" not in routes
    machine = {path.name for path in Path("/sys/class/net").iterdir()}
    assert not machine & {"n1", "n2", "n3", "br0"}


def test_ssh_works_by_name_with_the_labs_own_key_only(boards: Desk) -> None:
    assert boards.ssh("n2", "hostname").stdout == "n2\n"
    config = str(boards.folder / "ssh_config")
    assert boards.on("op", "ssh", "-F", config, "n1", "hostname").stdout == "n1\n"
    options = ["-o", "BatchMode=yes", "-o", "IdentityFile=/nowhere", "-o", "IdentitiesOnly=yes"]
    refused = boards.on("op", "ssh", "-F/dev/null", *options, "-oStrictHostKeyChecking=no", "n1")
    assert refused.returncode == 255
    assert "Permission denied (publickey)" in refused.stderr
    unknown = boards.on("op", "ssh", "-F/dev/null", "-oBatchMode=yes", "10.77.0.1", "true")
    assert "Host key verification failed" in unknown.stderr


def test_each_board_has_its_own_name_hosts_disk_and_processes(boards: Desk) -> None:
    said = {node: boards.ssh(node, FACTS).stdout.splitlines() for node in ("n1", "n2")}
    for node, facts in said.items():
        assert facts[0] == node
        assert f"127.0.1.1 {node}" in facts
        assert "1000" in facts  # the speed that eno1 tells of
    assert said["n1"][1] != said["n2"][1]  # machine-id
    assert int(said["n1"][-1]) < 12  # processes: nothing of the machine's is seen
    boards.ssh("n1", "touch ~/mine /tmp/mine")
    assert boards.ssh("n2", "ls -A ~/mine /tmp 2>&- | grep mine").stdout == ""
    assert "Read-only" in boards.ssh("n1", "touch /etc/mine").stderr


FACTS = "hostname; cat /etc/machine-id /etc/hosts /sys/class/net/eno1/speed; ps ax | wc -l"


def test_every_board_has_the_same_decoy(boards: Desk) -> None:
    for node in ("n1", "n2", "n3"):
        assert "172.17.0.1/16" in boards.ssh(node, "ip -4 -br addr show docker0").stdout


def test_the_boards_python_has_torch_and_nothing_of_an_operator(boards: Desk) -> None:
    code = "import torch, torchvision, timm.layers; print(torch.ones(2).sum().item())"
    assert boards.ssh("n1", f"python3 -c '{code}'").stdout == "2.0\n"
    for name in ("shanty", "pydantic"):
        assert "No module" in boards.ssh("n1", f"python3 -c 'import {name}'").stderr


def test_exec_gives_on_the_exit_code_and_op_has_this_shanty(boards: Desk) -> None:
    assert boards.on("n1", "sh", "-c", "exit 7").returncode == 7
    assert boards.on("op", "shanty", "--version").stdout.startswith("shanty ")
    assert boards.on("n1", "pwd").stdout.strip() == f"{boards.folder}/home"


def test_an_orphan_on_a_board_leaves_no_zombie(boards: Desk) -> None:
    boards.ssh("n1", "setsid sleep 0.2 >/dev/null 2>&1 </dev/null &")
    states = "ps -e -o stat= | grep -c Z"
    assert within(5, lambda: boards.ssh("n1", f"pgrep sleep; {states}").stdout == "0\n")


def test_a_second_up_is_refused(boards: Desk) -> None:
    done = boards.lab("up", "2")
    assert done.returncode == 3
    assert f"shanty lab down --name {boards.name}" in done.stderr
    assert boards.ssh("n3", "hostname").stdout == "n3\n"  # and has harmed nothing


def test_two_labs_stand_side_by_side(boards: Desk) -> None:
    other = Desk(name=f"{boards.name[:14]}-b")
    other.ok("up", "1")
    try:
        assert other.ssh("n1", "hostname").stdout == "n1\n"
        assert boards.ssh("n1", "hostname").stdout == "n1\n"
    finally:
        other.ok("down")
    assert boards.ssh("n1", "hostname").stdout == "n1\n"
    assert within(5, lambda: not other.leftovers())


def test_down_ends_what_runs_on_the_boards(boards: Desk) -> None:
    boards.ssh("n1", "setsid nohup sleep 600 >/dev/null 2>&1 </dev/null &")
    assert "5 hosts ended" in boards.ok("down")
    assert within(2, lambda: not boards.leftovers()), boards.leftovers()
    assert boards.lab("down").returncode == 3
    assert boards.lab("status").returncode == 3


def test_what_cannot_be_is_refused_before_anything_is_made(desk: Desk) -> None:
    for words in (("0",), ("3", "--link", "fast"), ("99",)):
        assert desk.lab("up", *words).returncode == 2
        assert not desk.leftovers()


@pytest.mark.parametrize("hosts", [0, 1, 2, 3, 4])
def test_down_cleans_up_after_a_killed_up(desk: Desk, hosts: int) -> None:
    up = desk.start("up", "3")
    assert within(20, lambda: written(desk) >= hosts)
    up.kill()
    up.communicate()
    assert "hosts ended" in desk.ok("down")
    assert within(5, lambda: not desk.leftovers()), desk.leftovers()
    desk.ok("up", "1")  # and the name is free again


def written(desk: Desk) -> int:
    """How many hosts are on record; -1 before the first record."""
    try:
        holders = desk.state()["holders"]
    except OSError:
        return -1
    return len(holders) if isinstance(holders, list) else -1


def test_down_cleans_up_after_an_up_killed_at_any_moment(desk: Desk) -> None:
    for moment in range(8):
        up = desk.start("up", "2")
        within(0.25 + 0.12 * moment, lambda: False)
        up.kill()
        up.communicate()
        assert desk.lab("down").returncode == (0 if desk.folder.exists() else 3) or True
        assert within(5, lambda: not desk.leftovers()), (moment, desk.leftovers())


def test_ctrl_c_while_it_comes_up_leaves_nothing(desk: Desk) -> None:
    up = desk.start("up", "3")
    assert within(20, lambda: written(desk) >= 2)
    up.send_signal(signal.SIGINT)
    assert up.communicate()[1].strip() == "interrupted"
    assert up.returncode == 130
    assert within(5, lambda: not desk.leftovers()), desk.leftovers()


def test_a_killed_holder_takes_its_board_along_and_the_rest_is_removed(boards: Desk) -> None:
    holders = boards.state()["holders"]
    assert isinstance(holders, list)
    pid = next(h["process"]["pid"] for h in holders if h["name"] == "n2")
    subprocess.run(["kill", "-9", str(pid)], check=True)
    assert within(5, lambda: "n2    10.77.0.2    off" in boards.ok("status"))
    assert "4 hosts ended" in boards.ok("down")
