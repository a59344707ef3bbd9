"""The hold-out: which samples of each class validate, when there is no validation set."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence


def held_out(paths: Sequence[str], fraction: float, seed: int) -> frozenset[str]:
    """The NFC ``paths`` of one class that are held out.

    A pure function of the set of paths, the fraction and the seed: adding a file moves few others.
    Of n images round(n * fraction) are taken, at least one where n >= 2, and never all.
    """
    if fraction <= 0 or len(paths) < 2:
        return frozenset()
    count = min(len(paths) - 1, max(1, round(len(paths) * fraction)))
    return frozenset(sorted(paths, key=lambda path: (_rank(path, seed), path))[:count])


def _rank(path: str, seed: int) -> bytes:
    return hashlib.sha256(f"{seed}/{path}".encode("utf-8", "surrogateescape")).digest()
