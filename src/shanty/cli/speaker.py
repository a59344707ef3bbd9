"""Calm lines on standard output, or none."""

from __future__ import annotations

import sys
from collections.abc import Iterable


class Speaker:
    """Writes lines unless it was told to be quiet."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._quiet = quiet

    def __call__(self, lines: Iterable[str]) -> None:
        """Write the lines at once, so that a pipe's reader sees them."""
        if self._quiet:
            return
        sys.stdout.write("".join(line + "\n" for line in lines))
        sys.stdout.flush()
