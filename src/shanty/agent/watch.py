"""The agent's loop: wait for a signal or an exit, and act on it."""

from __future__ import annotations

import time
from collections.abc import Sequence

from shanty.agent.crew import Worker, reap, signal_crew
from shanty.agent.evidence import examine
from shanty.agent.signals import SignalPipe
from shanty.agent.stopping import Stopping
from shanty.agent.verdict import Exit, signal_name
from shanty.record.events import EventLog, Note, WorkerExit
from shanty.record.rundir import RunDir
from shanty.units import plural

LONGEST_NAP = 0.2  # seconds; an exit wakes the agent at once, this is for a lost signal


class Watch:
    """Watches the workers of one node until the last one has ended."""

    def __init__(self, crew: Sequence[Worker], rundir: RunDir, log: EventLog) -> None:
        self._left = list(crew)
        self._rundir = rundir
        self._log = log

    def until_all_ended(self, pipe: SignalPipe, stopping: Stopping) -> list[Exit]:
        """Every worker's end, with what it left."""
        exits: list[Exit] = []
        while self._left:
            requests = pipe.wait(stopping.pause(time.monotonic(), LONGEST_NAP))
            exits += self._reap(stopping)
            self._pass_on(requests, stopping)
        return exits

    def _reap(self, stopping: Stopping) -> list[Exit]:
        """Those that ended since the last look; the first failure ends the others."""
        exits: list[Exit] = []
        asked = stopping.signalled
        for worker in list(self._left):
            code = reap(worker)
            if code is not None:
                self._left.remove(worker)
                exits.append(self._note(worker, code, asked=asked))
        for seen in exits:
            self._signal(stopping.on_exit(seen.code, seen.t))
        return exits

    def _note(self, worker: Worker, code: int, *, asked: bool) -> Exit:
        pid, name = worker.process.pid, signal_name(code)
        self._log.write(WorkerExit(worker=worker.rank, pid=pid, code=code, signal=name))
        now, path = time.monotonic(), str(worker.log)
        seen = Exit(rank=worker.rank, code=code, t=now, asked=asked, log=path)
        return examine(worker, self._rundir, seen)

    def _pass_on(self, requests: Sequence[int], stopping: Stopping) -> None:
        for _ in requests:
            self._signal(stopping.on_request(time.monotonic()))
        late = stopping.on_time(time.monotonic())
        if late is not None and self._left:
            ranks = ", ".join(str(w.rank) for w in self._left)
            limit = stopping.limits.save if stopping.asked else stopping.limits.grace
            many = plural(len(self._left), "rank")
            text = f"{many} did not end within {limit:g} s and had to be killed: {ranks}"
            self._log.write(Note(text=text, level="warning"))
        self._signal(late)

    def _signal(self, number: int | None) -> None:
        if number is not None:
            signal_crew(self._left, number)
