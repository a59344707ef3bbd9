"""Order and randomness as pure functions of (seed, epoch, index): no state, nothing to save.

Both use SplitMix64 (Steele, Lea, Flood 2014, "Fast splittable pseudorandom number generators"),
written out here because the streams of numpy and torch may change between their versions, and a
resumed run must draw the same numbers on another machine.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_GAMMA = 0x9E3779B97F4A7C15
_MASK = (1 << 64) - 1


def mix(*words: int) -> int:
    """One well-mixed 64-bit number from several: same words, same number."""
    state = 0
    for word in words:
        state = _finish((state ^ (word & _MASK)) + _GAMMA & _MASK)
    return state


def _finish(z: int) -> int:
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return z ^ (z >> 31)


def permutation(seed: int, epoch: int, images: int) -> NDArray[np.int64]:
    """The order of an epoch: sample indices, each of ``range(images)`` once. Shape [images]."""
    base = np.uint64(mix(seed, epoch, images))
    with np.errstate(over="ignore"):
        z = base + np.arange(1, images + 1, dtype=np.uint64) * np.uint64(_GAMMA)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
    return np.argsort(z, kind="stable").astype(np.int64)
