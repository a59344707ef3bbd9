"""What a worker does first: make sure that it never outlives its agent."""

from __future__ import annotations

import ctypes
import os
import signal

_PR_SET_PDEATHSIG = 1


def die_with_parent() -> None:
    """Ask the kernel to end this process when the agent that started it ends, however that ends.

    Without ``SHANTY_AGENT_PID`` (torchrun, mpirun or a person started the worker) nothing is done.
    The signal is SIGKILL: a rank that waits in a collective could not answer a gentler one.
    Source: prctl(2), PR_SET_PDEATHSIG.
    """
    agent = os.environ.get("SHANTY_AGENT_PID")
    if not agent:
        return
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != int(agent):  # the agent ended before the kernel was asked
        os.kill(os.getpid(), signal.SIGKILL)
