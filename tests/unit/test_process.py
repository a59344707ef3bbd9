"""A process is known by its pid and start time together."""

from __future__ import annotations

import os
import signal
import subprocess
from dataclasses import replace
from pathlib import Path

from shanty.record.process import Owner, alive, identify, read_owner, send, write_owner


def test_a_running_process_is_known_and_signalled() -> None:
    with subprocess.Popen(["sleep", "60"]) as child:
        found = identify(child.pid)
        assert found is not None
        assert alive(found)
        assert send(found, signal.SIGTERM)
        assert child.wait(5) == -signal.SIGTERM
    assert not alive(found)
    assert not send(found, signal.SIGTERM)


def test_the_same_pid_with_another_start_is_another_process_and_is_not_hit() -> None:
    me = identify(os.getpid())
    assert me is not None
    for other in (replace(me, start=me.start - 1), replace(me, boot="x"), replace(me, host="x")):
        assert not alive(other)
        assert not send(other, signal.SIGKILL)  # it would end this test


def test_what_ended_and_was_not_reaped_yet_is_not_alive() -> None:
    with subprocess.Popen(["true"]) as child:
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert identify(child.pid) is None


def test_a_name_with_brackets_and_spaces_does_not_confuse(tmp_path: Path) -> None:
    odd = tmp_path / "a) S (b"
    odd.symlink_to("/bin/sleep")
    with subprocess.Popen([odd, "60"]) as child:
        found = identify(child.pid)
        assert found is not None
        assert found.start > 1000
        child.kill()


def test_an_owner_comes_back_as_written_and_rubbish_is_nobody(tmp_path: Path) -> None:
    path = tmp_path / "agent.json"
    assert read_owner(path) is None
    me = identify(os.getpid())
    assert me is not None
    owner = Owner(agent=me, node="n1", generation=3, workers=(me, me))
    write_owner(path, owner)
    assert read_owner(path) == owner
    for rubbish in ("", "[]", "{}", '{"agent": 3, "x": 1}', "7"):
        path.write_text(rubbish)
        assert read_owner(path) is None
