"""A session follows a detached run, stops it, and knows how it ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from launching import DEAF, SAVES, MakeBench, gone, make_bench, wait_until

from shanty.cluster.running import leftovers, running
from shanty.cluster.session import Session, start
from shanty.cluster.transport import LocalTransport
from shanty.record.atomic import write_json
from shanty.record.events import Ended, EventLog, Note, Started
from shanty.record.process import Owner, identify, write_owner
from shanty.record.rundir import RunDir
from shanty.spec.codec import to_dict

__all__ = ["make_bench"]

HELLO = """
from shanty.record.events import Note
begin()
log = EventLog(RunDir(here / "run").rank_events(rank), node="local", rank=rank, gen=GEN)
log.write(Note(text="hello"))
log.close()
"""


def ended(session: Session) -> Session:
    assert session.wait(20)
    return session


def test_a_run_from_start_to_outcome(bench: MakeBench) -> None:
    b = bench(HELLO.replace("GEN", "0"), nproc=2)
    session = start(b.plan, LocalTransport())
    assert session.alive()
    with pytest.raises(ValueError, match="not ended"):
        session.outcome()
    events = ended(session).poll()
    assert [e.body.text for e in events if isinstance(e.body, Note)] == ["hello", "hello"]
    assert isinstance(events[0].body, Started)
    assert isinstance(events[-1].body, Ended)
    assert session.poll() == []
    outcome = session.outcome()
    assert (outcome.exit_code, outcome.error, outcome.reason) == (0, None, "finished")


def test_the_plan_is_written_for_its_owner_only(bench: MakeBench) -> None:
    b = bench("begin()", nproc=1)
    before = os.umask(0)
    try:
        ended(start(b.plan, LocalTransport()))
    finally:
        os.umask(before)
    assert b.rundir.plan.stat().st_mode & 0o777 == 0o600


def test_only_this_start_is_told(bench: MakeBench) -> None:
    b = bench(HELLO.replace("GEN", "1"), nproc=1)
    b.rundir.make()
    with EventLog(b.rundir.rank_events(0), node="local", rank=0, gen=0) as log:
        log.write(Note(text="old"))
    with EventLog(b.rundir.agent_events("local"), node="local", rank=-1, gen=0) as log:
        log.write(Ended(exit_code=4, reason="old"))
    session = ended(start(replace(b.plan, generation=1), LocalTransport()))
    texts = [e.body.text for e in session.poll() if isinstance(e.body, Note)]
    assert texts == ["hello"]
    assert session.outcome().exit_code == 0


def test_the_first_cause_comes_home_as_an_error(bench: MakeBench) -> None:
    b = bench("begin()\nfail('RefusedError: no')\nsys.exit(3)", nproc=1)
    outcome = ended(start(b.plan, LocalTransport())).outcome()
    assert outcome.exit_code == 3
    assert str(outcome.error) == "local rank 0: RefusedError: no\n  fix: mend it"
    assert outcome.trace == "trace.txt"


def test_a_stop_saves_and_a_kill_does_not(bench: MakeBench) -> None:
    b = bench(SAVES, nproc=1)
    session = start(b.plan, LocalTransport())
    b.pids()
    session.stop()
    outcome = ended(session).outcome()
    assert (outcome.exit_code, outcome.error, outcome.reason) == (130, None, "stopped")
    assert (b.folder / "saved-0").exists()


@pytest.mark.parametrize("asked_before", [True, False])
def test_a_kill_ends_a_deaf_worker_at_once(bench: MakeBench, asked_before: bool) -> None:
    b = bench(DEAF, nproc=2)
    session = start(b.plan, LocalTransport())
    pids = b.pids()
    if asked_before:
        session.stop()
    session.kill()
    assert session.wait(2)
    assert session.outcome().exit_code == 130
    assert all(gone(p) for p in pids)


def test_a_stop_right_after_the_start_is_an_interruption(bench: MakeBench) -> None:
    b = bench(SAVES, nproc=1)
    session = start(b.plan, LocalTransport())
    session.stop()
    assert session.wait(10)
    assert session.outcome().exit_code == 130


def test_an_agent_that_was_killed_is_named_and_its_workers_are_gone(bench: MakeBench) -> None:
    b = bench(DEAF, nproc=2)
    session = start(b.plan, LocalTransport())
    pids = b.pids()
    agent = running(b.rundir.root)
    assert agent is not None
    os.kill(agent, signal.SIGKILL)
    outcome = ended(session).outcome()
    assert all(gone(p) for p in pids)
    assert (outcome.exit_code, outcome.reason) == (4, "the agent died")
    assert "--resume" in str(outcome.error)
    assert running(b.rundir.root) is None


def test_a_worker_that_did_not_ask_to_die_is_helped(bench: MakeBench) -> None:
    b = bench(DEAF.replace("begin()", "die_with_parent = lambda: None\nbegin()"), nproc=1)
    session = start(b.plan, LocalTransport())
    (pid,) = b.pids()
    agent = running(b.rundir.root)
    assert agent is not None
    # The agent writes its workers down right after it started them.
    wait_until(lambda: '"workers": [\n' in b.rundir.agent_pid.read_text())
    os.kill(agent, signal.SIGKILL)
    ended(session)
    assert [w.pid for w in leftovers(b.rundir.root)] == [pid]
    session.outcome()
    wait_until(lambda: gone(pid), limit=5)
    assert leftovers(b.rundir.root) == []


def test_an_agent_that_cannot_start_says_why(bench: MakeBench, tmp_path: Path) -> None:
    b = bench("begin()", nproc=1)
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\necho no such module >&2\nexit 1\n")
    broken.chmod(0o755)
    launch = b.plan.nodes[0]
    node = replace(launch.node, python=str(broken))
    session = start(replace(b.plan, nodes=(replace(launch, node=node),)), LocalTransport())
    outcome = ended(session).outcome()
    assert outcome.exit_code == 4
    assert "no such module" in str(outcome.error)


def test_the_run_goes_on_when_the_operator_is_killed(bench: MakeBench) -> None:
    b = bench(SAVES, nproc=1)
    b.rundir.make()
    write_json(b.folder / "plan.json", to_dict(b.plan))
    operator = f"""
import json, time
from shanty.cluster.session import start
from shanty.cluster.transport import LocalTransport
from shanty.spec.codec import from_dict
from shanty.spec.plan import LaunchPlan
start(from_dict(LaunchPlan, json.load(open({str(b.folder / "plan.json")!r}))), LocalTransport())
time.sleep(60)
"""
    with subprocess.Popen([sys.executable, "-c", operator]) as process:
        (worker,) = b.pids()
        process.kill()
    time.sleep(0.3)
    agent = running(b.rundir.root)
    assert agent is not None
    assert not gone(worker)
    os.kill(agent, signal.SIGTERM)
    wait_until(lambda: running(b.rundir.root) is None)
    assert b.ended().exit_code == 130


def test_nothing_runs_in_a_folder_without_an_owner_or_with_a_reused_pid(tmp_path: Path) -> None:
    assert running(tmp_path) is None
    me = identify(os.getpid())
    assert me is not None
    path = RunDir(tmp_path).agent_pid
    write_owner(path, Owner(agent=me, node="local", generation=0))
    assert running(tmp_path) == os.getpid()
    write_owner(path, Owner(agent=replace(me, start=me.start + 1), node="local", generation=0))
    assert running(tmp_path) is None


def test_more_than_one_node_is_not_silently_halved(bench: MakeBench) -> None:
    b = bench("begin()", nproc=1)
    twice = replace(b.plan, nodes=b.plan.nodes * 2)
    with pytest.raises(ValueError, match="one node"):
        start(twice, LocalTransport())
