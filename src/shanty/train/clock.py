"""The one way in which time is measured here."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager


class Clock:
    """Sums seconds per name between two calls of ``take``."""

    def __init__(self) -> None:
        self._spent: dict[str, float] = {}
        self._since = time.monotonic()

    @contextmanager
    def span(self, name: str) -> Generator[None]:
        """Add the time inside to ``name``."""
        start = time.monotonic()
        try:
            yield
        finally:
            self.add(name, time.monotonic() - start)

    def add(self, name: str, seconds: float) -> None:
        """Add seconds that were measured elsewhere."""
        self._spent[name] = self._spent.get(name, 0.0) + seconds

    def take(self) -> tuple[float, dict[str, float]]:
        """Wall seconds since the last call and what was spent on what; starts anew."""
        now = time.monotonic()
        wall, spent = now - self._since, dict(self._spent)
        self._spent.clear()
        self._since = now
        return wall, spent
