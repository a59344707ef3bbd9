"""What a lab decides before it touches the machine; none of this needs root."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from shanty.errors import RefusedError, UsageError
from shanty.lab import hold, keys, needs, site
from shanty.lab.state import Lab, Login, folder_of, hosts_for, locked
from shanty.lab.wires import mac_of, speed_of
from shanty.record.process import identify
from shanty.spec.codec import from_dict, to_dict

LOGIN = Login(name="ada", uid=1000, gid=1000, shell="/bin/bash")  # noqa: S604 - a path


def lab(count: int = 2) -> Lab:
    return Lab(name="lab", link="1gbit", disk=1 << 20, login=LOGIN, hosts=hosts_for(count))


@pytest.mark.parametrize(
    ("text", "bits", "burst"),
    [("1gbit", 10**9, 128 << 10), ("100mbit", 10**8, 32 << 10), ("10gbit", 10**10, 1248 << 10)],
)
def test_speeds_and_what_may_pass_at_once(text: str, bits: int, burst: int) -> None:
    speed = speed_of(text)
    assert speed is not None
    assert (speed.bits, speed.burst) == (bits, burst)


def test_no_speed_limit_and_no_speed() -> None:
    assert speed_of("none") is None
    for text in ("fast", "0mbit", "1000", "1 gbit", ""):
        with pytest.raises(UsageError, match="no speed"):
            speed_of(text)


def test_hosts_have_a_name_an_address_and_a_mac_of_their_own() -> None:
    hosts = hosts_for(50)
    assert [h.name for h in hosts[:2]] == ["n1", "n2"]
    assert hosts[-1].name == "op"
    assert len({h.address for h in hosts}) == len({mac_of(h) for h in hosts}) == 51
    assert all(int(mac_of(h)[:2], 16) & 3 == 2 for h in hosts)  # local, and no group address
    for count in (0, 51, -1):
        with pytest.raises(UsageError):
            hosts_for(count)


@pytest.mark.parametrize("name", ["", "..", "a/b", "A", "1", "a b", "x" * 17])
def test_a_name_that_could_leave_the_folder_is_refused(name: str) -> None:
    with pytest.raises(UsageError):
        folder_of(name)


def test_a_lab_survives_its_file_and_knows_its_hosts() -> None:
    process = identify(os.getpid())
    assert process is not None
    one = lab().held("n1", process).held("n2", process).held("n1", process)
    assert from_dict(Lab, to_dict(one)) == one
    assert sorted(h.name for h in one.holders) == ["n1", "n2"]
    assert [b.name for b in one.boards] == ["n1", "n2"]
    with pytest.raises(UsageError) as caught:
        one.host("n3")
    assert caught.value.hint == "choose one of: n1, n2, op"


def test_only_one_command_at_a_time_and_a_removed_lab_is_no_lab(tmp_path: Path) -> None:
    with locked(tmp_path), pytest.raises(RefusedError, match="busy"), locked(tmp_path, 0.1):
        pass
    with locked(tmp_path, 0.1):  # the first let go
        pass
    with pytest.raises(RefusedError, match="no lab"), locked(tmp_path / "none"):
        pass


def test_without_root_the_hint_is_a_line_that_runs_this_python(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(sys, "argv", ["-c"])
    with pytest.raises(RefusedError) as caught:
        needs.check_root(["lab", "--help"])
    assert caught.value.exit_code == 3
    sudo, *words = shlex.split(caught.value.hint)
    assert (sudo, words[0]) == ("sudo", sys.executable)
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert "shanty lab" in done.stdout


def test_missing_programs_are_named_with_their_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {name: f"/bin/{name}" for name in ("ip", "mount", "unshare", "nsenter", "ssh-keygen")}
    monkeypatch.setattr(needs, "program", found.get)
    with pytest.raises(RefusedError, match="missing programs: tc, sshd") as caught:
        needs.check_programs()
    assert caught.value.hint == "sudo apt-get install iproute2 openssh-server"


def test_ssh_is_strict_and_uses_the_labs_files_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "config"
    config.write_text(keys.ssh_config(lab()))
    monkeypatch.setenv("HOME", str(tmp_path))
    done = subprocess.run(
        ["ssh", "-G", "-F", str(config), "n2"], capture_output=True, text=True, check=True
    )
    said = dict(line.split(" ", 1) for line in done.stdout.splitlines() if " " in line)
    assert (said["hostname"], said["user"]) == ("10.77.0.2", "ada")
    assert said["stricthostkeychecking"] in ("true", "yes")
    assert said["userknownhostsfile"] == "/run/shanty-lab/lab/known_hosts"


def test_the_boards_python_holds_what_training_needs_and_no_shanty() -> None:
    names = {name.lower() for name in site.parts()}
    assert not names & {"shanty", "pydantic", "pytest"}
    links = dict(site.site_at(Path("/run/x")).links)
    assert links["python/bin/python3"].endswith(f"/bin/python3.{sys.version_info.minor}")


def test_a_holder_whose_builder_dies_ends_before_it_has_begun(tmp_path: Path) -> None:
    code = """
import os, sys
from pathlib import Path
from shanty.lab.hold import Gate
gate = Gate("n1", Path(sys.argv[1]))
print(gate.process.pid, flush=True)
os.kill(os.getpid(), 9)
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "log")], capture_output=True, check=False
    )
    assert done.returncode == -9
    assert hold.wait_until(lambda: identify(int(done.stdout)) is None, 5)


def test_end_hits_only_the_very_process() -> None:
    with subprocess.Popen(["sleep", "60"]) as sleeper:
        found = identify(sleeper.pid)
        assert found is not None
        other = type(found)(pid=found.pid, start=found.start - 1, host=found.host, boot=found.boot)
        assert hold.end([other]) == 0
        assert sleeper.poll() is None
        assert hold.end([found]) == 1
        assert sleeper.wait(5) == -9
