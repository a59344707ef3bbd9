"""One formatter for every number a person reads."""

from __future__ import annotations

_STEPS = ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


def size(count: float) -> str:
    """Bytes as ``1.5 GiB``; below one KiB as ``12 B``."""
    for step, name in _STEPS:
        if count >= step:
            return f"{count / step:.1f} {name}"
    return f"{count:.0f} B"


def duration(seconds: float) -> str:
    """Seconds as ``850 ms``, ``12.3 s``, ``4:05`` (minutes) or ``1:02:03`` (hours)."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def rate(per_second: float) -> str:
    """Images per second as ``84 img/s``; below ten with one decimal."""
    return f"{per_second:.1f} img/s" if per_second < 10 else f"{per_second:.0f} img/s"


def count(number: int) -> str:
    """A whole number with thousands separated: ``3,068``."""
    return f"{number:,}"


def plural(number: int, word: str, plural_word: str = "") -> str:
    """``1 image``, ``2 images``, ``3 classes``."""
    return f"{number:,} {word if number == 1 else plural_word or word + 's'}"


def percent(fraction: float) -> str:
    """A fraction as ``84.7 %``."""
    return f"{100 * fraction:.1f} %"
