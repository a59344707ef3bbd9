"""A stop is polite first and final second, and no worker ever outlives its agent."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

import pytest
from launching import DEAF, SAVES, Bench, MakeBench, gone, make_bench, wait_until

from shanty.record.events import Failed, Note

__all__ = ["make_bench"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_lets_the_workers_save(bench: MakeBench, number: int) -> None:
    b = bench(SAVES, nproc=2)
    with b.agent() as agent:
        b.pids()
        agent.send_signal(number)
        assert agent.wait(5) == 130
    assert {p.name for p in b.folder.glob("saved-*")} == {"saved-0", "saved-1"}
    assert (b.ended().exit_code, b.ended().reason) == (130, "stopped")
    assert not any(isinstance(x, Failed) for x in b.bodies())


def test_one_rank_that_stops_first_leaves_the_other_its_time_to_save(bench: MakeBench) -> None:
    code = """
def save(*_):
    time.sleep(rank)
    (here / f"saved-{rank}").touch()
    sys.exit(130)
on_term(save)
begin()
time.sleep(60)
"""
    b = bench(code, nproc=2)
    with b.agent("--grace", "0.2") as agent:
        b.pids()
        agent.terminate()
        assert agent.wait(10) == 130
    assert (b.folder / "saved-1").exists()


def test_a_worker_that_hangs_is_killed_after_the_limit_and_that_is_said(bench: MakeBench) -> None:
    b = bench(DEAF, nproc=2)
    with b.agent("--save-limit", "0.5") as agent:
        pids = b.pids()
        agent.terminate()
        assert agent.wait(5) == 130
    assert all(gone(p) for p in pids)
    (note,) = [n for n in b.bodies() if isinstance(n, Note)]
    assert note.text == "2 ranks did not end within 0.5 s and had to be killed: 0, 1"
    assert "rank 0 killed by signal 9 (SIGKILL)" in b.ended().reason


def test_a_second_stop_ends_all_at_once(bench: MakeBench) -> None:
    b = bench(DEAF, nproc=2)
    with b.agent() as agent:
        pids = b.pids()
        agent.terminate()
        time.sleep(0.3)
        assert agent.poll() is None
        agent.terminate()
        assert agent.wait(1) == 130
    assert all(gone(p) for p in pids)


def test_a_frozen_worker_is_ended_too(bench: MakeBench) -> None:
    b = bench(SAVES, nproc=2)
    with b.agent("--save-limit", "0.5") as agent:
        pids = b.pids()
        os.kill(pids[1], signal.SIGSTOP)
        agent.terminate()
        assert agent.wait(5) == 130
    assert all(gone(p) for p in pids)


def test_a_stop_before_the_workers_can_save_ends_with_130(bench: MakeBench) -> None:
    b = bench("begin()\ntime.sleep(60)", nproc=1)  # SIGTERM ends this one by itself
    with b.agent() as agent:
        b.pids()
        agent.terminate()
        assert agent.wait(5) == 130
    assert b.ended().reason == "stopped"


def test_an_error_while_stopping_is_still_an_error(bench: MakeBench) -> None:
    code = """
def save(*_):
    fail("no space left for the checkpoint")
    sys.exit(4)
on_term(save)
begin()
time.sleep(60)
"""
    b = bench(code, nproc=2)
    with b.agent() as agent:
        b.pids()
        agent.terminate()
        assert agent.wait(5) == 4
    assert b.failed().error["what"] == "no space left for the checkpoint"


def test_a_closed_terminal_changes_nothing(bench: MakeBench) -> None:
    b = bench(SAVES, nproc=1)
    with b.agent() as agent:
        pids = b.pids()
        agent.send_signal(signal.SIGHUP)
        time.sleep(0.3)
        assert agent.poll() is None
        assert not gone(pids[0])
        agent.terminate()


def test_workers_die_with_their_agent(bench: MakeBench) -> None:
    b = bench(DEAF, nproc=2)
    with b.agent() as agent:
        pids = b.pids()
        agent.kill()
        agent.wait()
    assert wait_until(lambda: all(gone(p) for p in pids), limit=5) < 5


def test_a_worker_whose_agent_died_before_it_could_ask_ends_by_itself(bench: MakeBench) -> None:
    code = """
(here / "up").write_text(str(os.getpid()))
while not (here / "go").exists():
    time.sleep(0.01)
begin()
time.sleep(60)
"""
    b = bench(code, nproc=1)
    with b.agent() as agent:
        up = b.folder / "up"
        wait_until(lambda: up.exists() and up.read_text() != "")
        agent.kill()
        agent.wait()
    pid = int(up.read_text())
    assert not gone(pid)
    (b.folder / "go").touch()
    wait_until(lambda: gone(pid), limit=2)
    assert not (b.folder / "pid-0").exists()


@pytest.mark.parametrize("seed", range(8))
def test_after_a_kill_at_any_moment_nothing_is_left(bench: MakeBench, seed: int) -> None:
    chance = random.Random(seed)
    b = bench(DEAF, nproc=2)
    mark = f"{seed}-{os.getpid()}-{time.monotonic_ns()}"
    with b.agent("--save-limit", "0.3", SHANTY_TEST_MARK=mark) as agent:
        time.sleep(chance.uniform(0.0, 0.4))
        agent.send_signal(chance.choice([signal.SIGKILL, signal.SIGTERM]))
        agent.wait(10)
    wait_until(lambda: _marked(mark) == [], limit=2)


def _marked(mark: str) -> list[int]:
    """Running processes that have the mark in their environment."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if mark.encode() in path.read_bytes():
                found.append(int(path.parent.name))
        except OSError:
            continue
    return [p for p in found if not gone(p)]


def test_the_mark_finds_a_running_worker(bench: MakeBench) -> None:
    b: Bench = bench(SAVES, nproc=1)
    with b.agent(SHANTY_TEST_MARK="mark-of-this-test") as agent:
        (pid,) = b.pids()
        assert pid in _marked("mark-of-this-test")
        agent.terminate()
