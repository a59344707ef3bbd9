"""When the workers get which signal: a state machine without clock, processes or signals. Pure."""

from __future__ import annotations

import signal
from dataclasses import dataclass

INTERRUPTED = 130


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Seconds. ``save``: for a polite stop, to save; ``grace``: for the others after a failure."""

    save: float = 60.0
    grace: float = 5.0


class Stopping:
    """Told what happens, it answers with the signal to send now, or None.

    The first request is passed on politely (SIGTERM: save and end). The second one ends all at
    once. A failed worker ends the others: politely, and after the grace for good, since they may
    wait for it in a collective for ever.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.asked = False  # a person asked for the stop
        self.signalled = False  # the workers were told to end
        self.deadline: float | None = None

    def on_request(self, now: float) -> int | None:
        """A person asked to stop."""
        if self.asked:
            self.deadline = None
            return signal.SIGKILL
        self.asked = True
        return self._end_by(now + self.limits.save)

    def on_exit(self, code: int, now: float) -> int | None:
        """A worker ended with ``code`` (negative: a signal)."""
        if code == 0:
            return None
        # One that was stopped and saved says 130: the others may be saving still.
        allowed = self.limits.save if code == INTERRUPTED else self.limits.grace
        return self._end_by(now + allowed)

    def on_time(self, now: float) -> int | None:
        """Time has passed."""
        if self.deadline is None or now < self.deadline:
            return None
        self.deadline = None
        return signal.SIGKILL

    def pause(self, now: float, longest: float) -> float:
        """How long to sleep before ``on_time`` is due, at most ``longest``."""
        return longest if self.deadline is None else max(0.0, min(longest, self.deadline - now))

    def _end_by(self, deadline: float) -> int | None:
        """Tell them to end. Said once: what ends after it cannot shorten the time to save."""
        if self.signalled:
            return None
        self.signalled, self.deadline = True, deadline
        return signal.SIGTERM
