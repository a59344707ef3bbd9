"""Where the story is drawn: a terminal with a moving line, or plain lines in a file or pipe."""

from __future__ import annotations

import sys
import time
from typing import Protocol, TextIO

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from shanty.watch.story import Bar

EVERY = 30.0  # seconds between progress lines where nothing can be drawn over


class Screen(Protocol):
    """Shows lines that stay and one line that moves."""

    def show(self, lines: list[str]) -> None:
        """Add lines below the earlier ones."""

    def move(self, bar: Bar) -> None:
        """Draw the moving line anew."""

    def close(self) -> None:
        """Take the moving line away."""


class Plain:
    """Lines without control codes; the moving line is written now and then."""

    def __init__(self, out: TextIO, every: float = EVERY) -> None:
        self._out = out
        self._every = every
        self._last = time.monotonic()

    def show(self, lines: list[str]) -> None:
        """Write lines at once: a pipe's reader must not wait for a full buffer."""
        for line in lines:
            self._out.write(line + "\n")
        if lines:
            self._out.flush()

    def move(self, bar: Bar) -> None:
        """Write the progress, at most every ``every`` seconds."""
        now = time.monotonic()
        if bar.total and now - self._last >= self._every:
            self._last = now
            self.show([bar.text])

    def close(self) -> None:
        """Nothing was left open."""


class Terminal:
    """A terminal: lines scroll up, the moving line stays at the bottom."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, transient=True, auto_refresh=False)
        self._live.start()
        self._drawn: Bar | None = None

    def show(self, lines: list[str]) -> None:
        """Print lines above the moving one, unchanged: no markup, no colours of guesses."""
        for line in lines:
            self._console.print(Text(line), soft_wrap=True)

    def move(self, bar: Bar) -> None:
        """Draw the bar and its words, when they have changed."""
        if bar != self._drawn:
            self._drawn = bar
            self._live.update(_row(bar), refresh=True)

    def close(self) -> None:
        """Take the moving line away; the cursor stands below the last line."""
        self._live.stop()


class Silent:
    """``--quiet``: what goes on is only in the run's folder."""

    def show(self, lines: list[str]) -> None:
        """Show nothing."""

    def move(self, bar: Bar) -> None:
        """Show nothing."""

    def close(self) -> None:
        """Nothing was left open."""


def screen_for(out: TextIO | None = None, *, quiet: bool = False) -> Screen:
    """The screen that fits: silent, a terminal, or plain lines."""
    out = out or sys.stdout
    if quiet:
        return Silent()
    console = Console(file=out, highlight=False)
    return Terminal(console) if console.is_terminal and not console.is_dumb_terminal else Plain(out)


def _row(bar: Bar) -> Table | Text:
    text = Text(bar.text, no_wrap=True, overflow="ellipsis")
    if not bar.total:
        return text
    row = Table.grid(padding=(0, 2))
    row.add_row(ProgressBar(total=bar.total, completed=bar.done, width=16), text)
    return row
