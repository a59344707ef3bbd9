"""Each fault is one: seen from outside, told by status, undone by heal."""

from __future__ import annotations

import re

from desk import Desk, within

RECEIVE = """
import socket, time
server = socket.create_server(("", 5000))
print("ready", flush=True)
link, _ = server.accept()
start, count = time.monotonic(), 0
while data := link.recv(1 << 16):
    count += len(data)
print(8 * count / (time.monotonic() - start) / 1e6)
"""
SEND = """
import socket
link = socket.create_connection(("10.77.0.2", 5000), 10)
link.sendall(bytes(4 << 20))
"""
CONNECT = """
import socket, sys
try:
    socket.create_connection(("10.77.0.1", int(sys.argv[1])), 1.5)
    print("open")
except ConnectionRefusedError:
    print("refused")
except OSError:
    print("silent")
"""
LARGE = "head -c 200000 /dev/zero | ssh -o ServerAliveInterval=1 -o ServerAliveCountMax=3 n2 wc -c"


def test_a_cut_cable_and_its_healing(boards: Desk) -> None:
    boards.ok("cut", "n2")
    assert not boards.ping("n1", "10.77.0.2")
    assert boards.ping("n1", "10.77.0.3")
    assert boards.on("n2", "cat", "/sys/class/net/eno1/carrier").stdout == "0\n"
    assert re.search(r"n2 .* up +out", boards.ok("status"))
    boards.ok("heal", "n2")
    assert boards.ping("n1", "10.77.0.2")


def test_a_slow_cable_is_slow(boards: Desk) -> None:
    boards.ok("link", "n2", "100mbit")
    assert megabits(boards) < 130
    assert boards.on("n2", "cat", "/sys/class/net/eno1/speed").stdout == "100\n"
    assert re.search(r"n2 .* 100mbit", boards.ok("status"))
    boards.ok("heal", "n2")
    assert re.search(r"n2 .* 1000mbit", boards.ok("status"))


def megabits(boards: Desk) -> float:
    """Rate of 4 MiB from n1 to n2, in Mbit/s."""
    with boards.start("exec", "n2", "--", "python3", "-c", RECEIVE) as receiver:
        assert receiver.stdout is not None
        assert receiver.stdout.readline() == "ready\n"
        assert boards.on("n1", "python3", "-c", SEND).returncode == 0
        return float(receiver.communicate(timeout=60)[0])


def test_a_firewall_lets_ssh_and_one_port_in(boards: Desk) -> None:
    assert "22, 29500" in boards.ok("firewall", "n1", "--allow", "29500")
    said = {port: boards.on("n2", "python3", "-c", CONNECT, port).stdout.strip() for port in PORTS}
    assert said == {"22": "open", "29500": "refused", "29501": "silent", "45000": "silent"}
    assert boards.ssh("n1", "hostname").stdout == "n1\n"
    assert "firewall" in boards.ok("status")
    boards.ok("heal", "n1")
    assert boards.on("n2", "python3", "-c", CONNECT, "45000").stdout == "refused\n"


PORTS = ("22", "29500", "29501", "45000")


def test_another_mtu_on_a_board(boards: Desk) -> None:
    boards.ok("mtu", "n2", "1400")
    assert boards.on("n2", "cat", "/sys/class/net/eno1/mtu").stdout == "1400\n"
    assert boards.ping("n1", "10.77.0.2")
    boards.ok("heal", "n2")
    assert boards.on("n2", "cat", "/sys/class/net/eno1/mtu").stdout == "1500\n"


def test_an_mtu_on_the_way_loses_large_packets_only(boards: Desk) -> None:
    assert boards.on("op", "sh", "-c", LARGE).stdout == "200000\n"
    boards.ok("mtu", "--path", "n2", "1000")
    assert boards.ping("n1", "10.77.0.2")
    assert boards.on("op", "sh", "-c", LARGE).stdout != "200000\n"
    boards.ok("heal", "n2")
    assert boards.on("op", "sh", "-c", LARGE).stdout == "200000\n"


def test_a_frozen_board_answers_to_ping_only(boards: Desk) -> None:
    boards.ssh("n3", "setsid sh -c 'while :; do date +%N > ~/beat; sleep 0.05; done' >&- 2>&- &")
    assert beats(boards)
    boards.ok("freeze", "n3")
    assert not beats(boards)
    assert boards.ping("n1", "10.77.0.3")
    assert re.search(r"n3 .* frozen", boards.ok("status"))
    boards.ok("thaw", "n3")
    assert beats(boards)


def beats(boards: Desk) -> bool:
    """Whether the process on n3 that writes the time all the time does so."""
    first = boards.on("n3", "cat", "beat").stdout
    return within(1.5, lambda: boards.on("n3", "cat", "beat").stdout != first)


def test_one_process_is_killed_by_its_pid_on_the_board(boards: Desk) -> None:
    pid = boards.ssh("n1", "setsid sleep 600 >/dev/null 2>&1 </dev/null & echo $!").stdout.strip()
    boards.ok("kill", "n1", pid)
    assert boards.ssh("n1", "pgrep sleep").stdout == ""
    again = boards.lab("kill", "n1", pid)
    assert (again.returncode, "there is no process" in again.stderr) == (2, True)
    assert boards.lab("kill", "n1", "1").returncode == 2  # the board itself is not a process of it


def test_a_board_loses_its_power_and_comes_back_empty(boards: Desk) -> None:
    boards.ssh("n2", "touch ~/old")
    boards.ok("kill", "n2")
    assert not boards.ping("n1", "10.77.0.2")
    refused = boards.lab("cut", "n2")
    assert (refused.returncode, "shanty lab boot n2" in refused.stderr) == (4, True)
    boards.ok("boot", "n2")
    assert boards.ssh("n2", "ls ~; hostname").stdout == "n2\n"  # same name, same host key
    assert boards.lab("boot", "n2").returncode == 3


def test_a_full_disk(boards: Desk) -> None:
    boards.ok("fill", "n1")
    assert "No space left" in boards.ssh("n1", "head -c 200000 /dev/zero > ~/more").stderr
    boards.ok("heal", "n1")
    assert boards.ssh("n1", "head -c 200000 /dev/zero > ~/more && echo fine").stdout == "fine\n"


def test_all_faults_at_once_are_healed(boards: Desk) -> None:
    for words in (("firewall", "n1"), ("mtu", "--path", "n1", "1000"), ("freeze", "n1"),
                  ("link", "n1", "10mbit"), ("cut", "n1")):  # fmt: skip
        boards.ok(*words)
    boards.ok("heal", "n1")
    assert boards.ssh("n1", "hostname").stdout == "n1\n"
    assert re.search(r"n1 .* up +1000mbit +1500 +\d+$", boards.ok("status"), re.MULTILINE)


def test_a_fault_on_nobody_is_a_mistake(boards: Desk) -> None:
    done = boards.lab("cut", "n7")
    assert (done.returncode, "n1, n2, n3, op" in done.stderr) == (2, True)
