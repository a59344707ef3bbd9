"""Real agents with tiny real workers, for the tests of the agent and the session."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from shanty.cluster.here import local_node
from shanty.cluster.plan import Job, make_plan
from shanty.record.atomic import write_json
from shanty.record.events import Body, Ended, Failed
from shanty.record.reader import parse
from shanty.record.rundir import RunDir
from shanty.spec.codec import to_dict
from shanty.spec.plan import LaunchPlan

# What every worker of these tests begins with. `here` is a folder where it can leave traces.
PRELUDE = """
import json, os, signal, sys, time
from pathlib import Path
from shanty.record.orphan import die_with_parent
from shanty.record.events import EventLog, Failed
from shanty.record.rundir import RunDir
here = Path(sys.argv[1])
rank = int(os.environ["RANK"])
def begin():
    die_with_parent()
    (here / f"pid-{rank}.part").write_text(str(os.getpid()))
    (here / f"pid-{rank}.part").rename(here / f"pid-{rank}")
def fail(what, **more):
    log = EventLog(RunDir(here / "run").rank_events(rank), node="", rank=rank, gen=0)
    error = {"error": "FailedError", "what": what, "hint": "mend it", "rank": rank}
    log.write(Failed(error=error | more, trace="trace.txt"))
    log.close()
def on_term(action):
    signal.signal(signal.SIGTERM, action)
"""
SAVES = """
def save(*_):
    (here / f"saved-{rank}").touch()
    sys.exit(130)
on_term(save)
begin()
time.sleep(60)
"""
DEAF = """
on_term(signal.SIG_IGN)
begin()
time.sleep(60)
"""


@dataclass(frozen=True)
class Bench:
    """A folder with a worker module and a plan that starts it."""

    folder: Path
    plan: LaunchPlan

    @property
    def rundir(self) -> RunDir:
        return RunDir(Path(self.plan.rundir))

    def agent(self, *options: str, **env: str) -> subprocess.Popen[bytes]:
        """Start the agent as a child of the test."""
        self.rundir.make()
        write_json(self.rundir.plan, to_dict(self.plan))
        command = [sys.executable, "-m", "shanty.agent", str(self.rundir.plan), "local", *options]
        with self.rundir.agent_log("local").open("ab") as log:
            return subprocess.Popen(command, stdout=log, stderr=log, env=os.environ | env)

    def finish(self, *options: str, **env: str) -> int:
        """Run the agent to its end; its exit code."""
        with self.agent(*options, **env) as agent:
            return agent.wait(20)

    def bodies(self) -> list[Body]:
        """What the agent told, in order."""
        return [e.body for e in parse(self.rundir.agent_events("local").read_text())]

    def failed(self) -> Failed:
        """The one error that the agent told."""
        (found,) = [b for b in self.bodies() if isinstance(b, Failed)]
        return found

    def ended(self) -> Ended:
        """The agent's last word."""
        last = self.bodies()[-1]
        assert isinstance(last, Ended)
        return last

    def pids(self) -> list[int]:
        """The workers' pids, once all of them have begun."""
        files = [self.folder / f"pid-{r}" for r in self.plan.nodes[0].ranks]
        wait_until(lambda: all(f.exists() for f in files))
        return [int(f.read_text()) for f in files]


MakeBench = Callable[..., Bench]


@pytest.fixture(name="bench")
def make_bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MakeBench:
    """Call it with the worker's code and the number of ranks."""
    path = f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}".rstrip(os.pathsep)
    monkeypatch.setenv("PYTHONPATH", path)

    def make(code: str, nproc: int = 2, python: str = sys.executable) -> Bench:
        (tmp_path / "tiny_worker.py").write_text(PRELUDE + code)
        rundir = str(tmp_path / "run")
        job = Job(run_id="r1", module="tiny_worker", spec=str(tmp_path), rundir=rundir)
        node = replace(local_node(nproc), python=python)
        return Bench(tmp_path, make_plan(job, node, cores=2))

    return make


def wait_until(true: Callable[[], bool], limit: float = 10.0) -> float:
    """Seconds until it was true; fails after ``limit``."""
    begin = time.monotonic()
    while not true():
        assert time.monotonic() - begin < limit, "it did not become true"
        time.sleep(0.01)
    return time.monotonic() - begin


def gone(pid: int) -> bool:
    """True when no such process runs (its remains, waiting to be noticed, do not run)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True
