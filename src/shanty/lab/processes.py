"""The processes of one host, as this machine sees them; process 1 is never touched."""

from __future__ import annotations

import signal
from pathlib import Path

from shanty.errors import FailedError, UsageError
from shanty.lab.enter import Inside
from shanty.lab.hold import wait_until
from shanty.record.process import ProcessId, alive, identify, send


def of_host(host: Inside) -> list[ProcessId]:
    """Every living process in the host's pid namespace, without its process 1."""
    space = _space(host.init)
    pids = [int(folder.name) for folder in Path("/proc").glob("[0-9]*")]
    found = [identify(pid) for pid in pids if pid != host.init and _space(pid) == space]
    return [process for process in found if process is not None]


def stop_all(host: Inside) -> int:
    """SIGSTOP until none runs (one may have forked meanwhile); how many stand still."""
    if not wait_until(lambda: _stopped(host, signal.SIGSTOP), 5):
        raise FailedError("some of its processes do not stop", node=host.name)
    return len(of_host(host))


def carry_on(host: Inside) -> int:
    """SIGCONT to all that stand still; how many these were."""
    still = [process for process in of_host(host) if _state(process.pid) == "T"]
    for process in still:
        send(process, signal.SIGCONT)
    if not wait_until(lambda: all(_state(process.pid) != "T" for process in still), 5):
        raise FailedError("some of its processes do not go on", node=host.name)
    return len(still)


def frozen(host: Inside) -> bool:
    """True when it has processes and all of them stand still."""
    states = {_state(process.pid) for process in of_host(host)}
    return states == {"T"}


def kill(host: Inside, pid: int) -> str:
    """SIGKILL the process that has this pid on the host, and see it gone."""
    for process in of_host(host):
        if _pid_there(process.pid) == pid:
            send(process, signal.SIGKILL)
            if not wait_until(lambda p=process: not alive(p), 5):
                raise FailedError(f"process {pid} does not end", node=host.name)
            return f"{host.name}: process {pid} is killed"
    raise UsageError(
        f"there is no process {pid}", node=host.name, hint=f"shanty lab exec {host.name} -- ps ax"
    )


def _stopped(host: Inside, number: int) -> bool:
    running = [process for process in of_host(host) if _state(process.pid) != "T"]
    for process in running:
        send(process, number)
    return not running


def _space(pid: int) -> str:
    try:
        return str(Path(f"/proc/{pid}/ns/pid").readlink())
    except OSError:
        return ""


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[0]
    except OSError:
        return "gone"


def _pid_there(pid: int) -> int:
    """The pid as the host itself sees it: the innermost of its namespaces."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text(errors="replace").splitlines()
    except OSError:
        return -1
    return next((int(line.split()[-1]) for line in lines if line.startswith("NSpid:")), -1)
