"""Follow a run: poll its events, draw them, pass Ctrl-C on, and give back how it ended."""

from __future__ import annotations

import signal
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Protocol, TypeVar

from shanty.errors import FailedError, ShantyError
from shanty.record.events import Event
from shanty.watch.screen import Screen
from shanty.watch.story import Story

T_co = TypeVar("T_co", covariant=True)


class Followed(Protocol[T_co]):
    """What can be followed; cluster.session.Session is one. ``outcome`` says how it ended."""

    def poll(self) -> list[Event]:
        """New events since the last call."""
        ...

    def alive(self) -> bool:
        """True while anything of the run is still there."""
        ...

    def stop(self) -> None:
        """Ask the run to save and end."""

    def kill(self) -> None:
        """End the run now."""

    def outcome(self) -> T_co:
        """How it ended; called once nothing is alive."""
        ...


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Seconds: between polls, of silence before a word about it, and before giving up."""

    poll: float = 0.1
    silence: float = 20.0
    start: float = 900.0
    stop: float = 120.0
    kill: float = 30.0


class Interrupts:
    """Counts Ctrl-C (and SIGTERM) while it is on; the loop asks for the count."""

    def __init__(self) -> None:
        self.count = 0

    @contextmanager
    def counted(self) -> Generator[Interrupts, None, None]:
        """Count instead of raising, inside the block. Only in the main thread."""
        before = {s: signal.signal(s, self._one) for s in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield self
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _one(self, _number: int, _frame: FrameType | None) -> None:
        self.count += 1


def follow(
    session: Followed[T_co],
    story: Story,
    screen: Screen,
    interrupts: Interrupts,
    limits: Limits | None = None,
) -> T_co:
    """Draw a run until it has ended.

    One Ctrl-C asks it to save and stop, a second ends it at once. No wait is without a limit: a
    run that shows no sign of life while starting, or does not stop when asked, is ended.

    Raises:
        FailedError: it never began, or had to be ended because it did not stop.
    """
    watcher = _Watcher(story, screen, limits or Limits())
    try:
        while session.alive() and not watcher.hopeless():
            watcher.draw(session.poll())
            watcher.obey(session, interrupts.count)
            time.sleep(watcher.limits.poll)
        watcher.draw(session.poll())
        screen.show(story.flush())
    finally:
        screen.close()
    if watcher.given_up is not None:
        raise watcher.given_up
    return session.outcome()


class _Watcher:
    """What the loop remembers: when it last heard something, and what it has asked for."""

    def __init__(self, story: Story, screen: Screen, limits: Limits) -> None:
        self.limits = limits
        self.given_up: ShantyError | None = None
        self._story, self._screen = story, screen
        self._asked = 0
        self._begun = self._heard = self._spoke = time.monotonic()
        self._stopped_at = self._killed_at = 0.0
        self._any = False

    def draw(self, events: list[Event]) -> None:
        now = time.monotonic()
        if events:
            self._any = True
            self._heard = self._spoke = now
        elif now - self._spoke >= self.limits.silence:
            self._spoke = now
            self._screen.show([self._story.waiting(now - self._heard)])
        self._screen.show(self._story.take(events))
        self._screen.move(self._story.bar())

    def obey(self, session: Followed[object], count: int) -> None:
        now = time.monotonic()
        if count > 0 and self._asked == 0:
            self._asked, self._stopped_at = 1, now
            self._screen.show(["stopping: saving a checkpoint ... (Ctrl-C again: end at once)"])
            session.stop()
        if count > 1 and self._asked == 1:
            self._screen.show(["ending at once"])
            self._kill(session)
        if self._asked == 1 and now - self._stopped_at > self.limits.stop:
            self._give_up(session, f"did not stop within {self.limits.stop:.0f} s and was ended")
        if not self._any and now - self._begun > self.limits.start:
            self._give_up(session, f"no sign of life within {self.limits.start:.0f} s of the start")

    def _give_up(self, session: Followed[object], what: str) -> None:
        if self.given_up is None:
            hint = f"read what the processes printed: {self._story.place}/logs"
            self.given_up = FailedError(what, hint=hint)
            self._kill(session)

    def _kill(self, session: Followed[object]) -> None:
        self._asked, self._killed_at = 2, time.monotonic()
        session.kill()

    def hopeless(self) -> bool:
        """True when the run was ended long ago and is still there: nothing more can be done."""
        if self._asked < 2 or time.monotonic() - self._killed_at < self.limits.kill:
            return False
        what = f"the run does not end, {self.limits.kill:.0f} s after it was told to"
        self.given_up = FailedError(what, hint=f"read {self._story.place}/logs; kill it by its pid")
        return True
