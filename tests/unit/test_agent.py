"""The agent starts its workers in the right place, and says how they ended."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from launching import DEAF, SAVES, MakeBench, gone, make_bench, wait_until

from shanty.record.events import Note, Started, WorkerExit

__all__ = ["make_bench"]

TELL = """
begin()
store = Path(os.environ["SHANTY_STORE"])
state = {"env": dict(os.environ), "mode": store.parent.stat().st_mode & 0o777}
state |= {"stdin": os.readlink("/proc/self/fd/0"), "cwd": os.getcwd(), "fresh": not store.exists()}
(here / f"told-{rank}").write_text(json.dumps(state))
print("one line")
"""


def test_every_worker_knows_its_place(bench: MakeBench) -> None:
    b = bench(TELL, nproc=2)
    stale = {
        "RANK": "7",
        "MASTER_ADDR": "10.0.0.9",
        "MASTER_PORT": "1",
        "OMPI_COMM_WORLD_RANK": "5",
    }
    assert b.finish(**stale, TORCHELASTIC_RUN_ID="x", OMP_NUM_THREADS="64") == 0
    for rank in (0, 1):
        told = json.loads((b.folder / f"told-{rank}").read_text())
        env = told["env"]
        assert (env["RANK"], env["WORLD_SIZE"]) == (str(rank), "2")
        assert (env["LOCAL_RANK"], env["LOCAL_WORLD_SIZE"]) == (str(rank), "2")
        assert (env["GROUP_RANK"], env["NODE_RANK"], env["SHANTY_NODE"]) == ("0", "0", "local")
        assert (env["OMP_NUM_THREADS"], env["GLOO_SOCKET_IFNAME"]) == ("1", "lo")
        left = {"MASTER_ADDR", "MASTER_PORT", "OMPI_COMM_WORLD_RANK", "TORCHELASTIC_RUN_ID"}
        assert not left & env.keys()
        assert told["mode"] == 0o700
        assert told["fresh"]
        assert told["stdin"] == "/dev/null"
        assert told["cwd"] == str(Path.cwd())
        assert not Path(env["SHANTY_STORE"]).parent.exists()


def test_a_good_end_is_told_in_events(bench: MakeBench) -> None:
    b = bench(TELL, nproc=2)
    with b.agent() as agent:
        assert agent.wait(20) == 0
    begin, *exits, end = b.bodies()
    assert isinstance(begin, Started)
    assert (begin.what, begin.pid, begin.world_size) == ("agent", agent.pid, 2)
    assert [type(e) for e in exits] == [WorkerExit, WorkerExit]
    assert sorted(e.worker for e in exits if isinstance(e, WorkerExit)) == [0, 1]
    assert end == b.ended()
    assert (b.ended().exit_code, b.ended().reason) == (0, "finished")
    assert not b.rundir.agent_pid.exists()
    assert b.rundir.agent_log("local").read_text() == ""


def test_logs_are_appended_to(bench: MakeBench) -> None:
    b = bench(TELL, nproc=1)
    assert [b.finish(), b.finish()] == [0, 0]
    assert b.rundir.rank_log("local", 0).read_text() == "one line\n" * 2


def test_while_it_runs_its_pid_and_its_workers_are_written_down(bench: MakeBench) -> None:
    b = bench(SAVES, nproc=2)
    with b.agent() as agent:
        pids = b.pids()
        wait_until(lambda: len(json.loads(b.rundir.agent_pid.read_text())["workers"]) == 2)
        owner = json.loads(b.rundir.agent_pid.read_text())
        agent.terminate()
    assert owner["agent"]["pid"] == agent.pid
    assert owner["agent"]["host"] == os.uname().nodename
    assert [w["pid"] for w in owner["workers"]] == pids


@pytest.mark.parametrize(("code", "own"), [(2, 2), (3, 3), (4, 4), (130, 130), (1, 4), (77, 4)])
def test_exit_codes_are_passed_on_where_they_have_a_meaning(
    bench: MakeBench, code: int, own: int
) -> None:
    b = bench(f"begin()\nsys.exit({code})", nproc=1)
    assert b.finish() == own
    assert b.ended().exit_code == own


def test_an_exception_without_an_event_is_told_by_its_last_words(bench: MakeBench) -> None:
    b = bench("begin()\nif rank == 1: raise ValueError('boom')\ntime.sleep(60)", nproc=2)
    assert b.finish() == 4
    error = b.failed().error
    assert (error["node"], error["rank"], error["exit_code"]) == ("local", 1, 4)
    assert "exit code 1" in error["what"]
    assert "ValueError: boom" in error["what"]
    assert any("tiny_worker.py" in line for line in error["log"])
    assert error["hint"] == f"read {b.rundir.rank_log('local', 1)}"
    assert b.ended().reason == error["what"]


def test_last_words_are_freed_of_what_torch_and_python_draw_around_them(bench: MakeBench) -> None:
    code = 'print("[rank0]:   x = f()\\n[rank0]:       ^^^\\n\\n[rank0]: ValueError: boom")'
    b = bench(f"begin()\n{code}\nsys.exit(1)", nproc=1)
    assert b.finish() == 4
    assert b.failed().error["log"] == ["  x = f()", "ValueError: boom"]


def test_old_words_in_the_log_are_not_taken_for_the_last_ones(bench: MakeBench) -> None:
    b = bench("begin()\nsys.exit(1)", nproc=1)
    b.rundir.make()
    b.rundir.rank_log("local", 0).write_text("OldError: of the start before\n")
    assert b.finish() == 4
    assert b.failed().error["log"] == []


def test_the_first_error_event_is_the_cause_not_the_first_exit(bench: MakeBench) -> None:
    code = """
begin()
if rank == 1:
    fail("ValueError: boom at step 3")
    (here / "failed").touch()
    time.sleep(0.5)
    sys.exit(4)
while not (here / "failed").exists():
    time.sleep(0.01)
fail("RuntimeError: Connection closed by peer")
sys.exit(4)
"""
    b = bench(code, nproc=2)
    assert b.finish() == 4
    error = b.failed().error
    assert (error["rank"], error["what"]) == (1, "ValueError: boom at step 3")
    assert (error["node"], error["hint"]) == ("local", "mend it")
    assert b.failed().trace == "trace.txt"


def test_a_rank_that_only_lost_its_peer_is_not_the_cause(bench: MakeBench) -> None:
    code = """
begin()
if rank == 0:
    while not (here / "pid-1").exists():
        time.sleep(0.01)
    fail("lost rank 1", consequence=True)
    sys.exit(4)
time.sleep(0.5)
fail("ValueError: slow to be told")
sys.exit(4)
"""
    b = bench("on_term(signal.SIG_IGN)" + code, nproc=2)
    assert b.finish() == 4
    assert b.failed().error["what"] == "ValueError: slow to be told"


def test_a_killed_worker_is_named_and_the_others_are_ended(bench: MakeBench) -> None:
    b = bench(SAVES, nproc=3)
    with b.agent() as agent:
        pids = b.pids()
        os.kill(pids[1], signal.SIGKILL)
        begin = time.monotonic()
        assert agent.wait(20) == 4
    assert time.monotonic() - begin < 6
    error = b.failed().error
    assert (error["node"], error["rank"]) == ("local", 1)
    assert error["what"] == "killed by signal 9 (SIGKILL): out of memory?"
    assert "--batch" in error["hint"]
    assert all(gone(p) for p in pids)
    assert {p.name for p in b.folder.glob("saved-*")} == {"saved-0", "saved-2"}


def test_who_does_not_end_after_a_failure_is_killed_after_the_grace(bench: MakeBench) -> None:
    fails = """
if rank == 1:
    while not (here / "pid-0").exists():  # rank 0 must be deaf before it is told to end
        time.sleep(0.01)
    sys.exit(3)
"""
    b = bench(fails + DEAF, nproc=2)
    assert b.finish("--grace", "0.5") == 3
    notes = [n.text for n in b.bodies() if isinstance(n, Note)]
    assert notes == ["1 rank did not end within 0.5 s and had to be killed: 0"]
    assert b.failed().error["rank"] == 1


def test_what_a_worker_leaves_behind_is_ended_with_it(bench: MakeBench) -> None:
    code = """
import subprocess
begin()
child = subprocess.Popen(["sleep", "60"])
(here / "child").write_text(str(child.pid))
"""
    b = bench(code, nproc=1)
    assert b.finish() == 0
    child = int((b.folder / "child").read_text())
    wait_until(lambda: gone(child), limit=5)


def test_a_second_agent_for_the_same_folder_is_refused(bench: MakeBench) -> None:
    b = bench(SAVES, nproc=1)
    with b.agent() as first:
        b.pids()
        assert b.finish() == 3
        assert first.poll() is None
        assert f"pid {first.pid}" in b.rundir.agent_log("local").read_text()
        first.terminate()
    assert first.returncode == 130


def test_what_a_dead_agent_wrote_down_is_no_hindrance(bench: MakeBench) -> None:
    b = bench(SAVES, nproc=1)
    with b.agent() as first:
        b.pids()
        first.kill()
    assert b.rundir.agent_pid.exists()
    assert bench(TELL, nproc=1).finish() == 0


def test_a_python_that_is_not_there_is_named(bench: MakeBench) -> None:
    b = bench(TELL, nproc=2, python="/no/such/python")
    assert b.finish() == 4
    assert "/no/such/python" in b.failed().error["what"]
    assert b.ended().exit_code == 4


def test_a_plan_that_is_none_and_a_node_that_is_not_in_it(bench: MakeBench) -> None:
    b = bench(TELL, nproc=1)
    b.rundir.make()
    (b.rundir.plan).write_text("{}")
    command = [b.plan.nodes[0].node.python, "-m", "shanty.agent", str(b.rundir.plan), "n2"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, "is no plan" in done.stderr) == (2, True)
    b.finish()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, "it has: local" in done.stderr) == (2, True)
