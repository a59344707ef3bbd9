"""Which model names timm knows, read from its source: importing it takes seconds."""

from __future__ import annotations

import difflib
import re
from importlib.util import find_spec
from pathlib import Path

_REGISTERED = re.compile(r"^@register_model\s*\ndef (\w+)\(", re.MULTILINE)


def model_names() -> list[str]:
    """Every architecture that the installed timm registers, sorted; empty without timm."""
    found = find_spec("timm")
    if found is None or found.origin is None:
        return []
    files = Path(found.origin).parent.glob("models/*.py")
    names = {n for f in files for n in _REGISTERED.findall(f.read_text(encoding="utf-8"))}
    return sorted(names)


def knows(name: str) -> bool:
    """True when timm can build a model of this name.

    What its source does not show in the usual form (an old name that maps to a new one) is asked
    of timm itself, so that a no is never wrong.
    """
    if name.split(".", maxsplit=1)[0] in model_names():
        return True
    import timm  # noqa: PLC0415 - seconds long, and only for a name that looks wrong

    return timm.is_model(name)


def nearest_models(name: str, most: int = 5) -> list[str]:
    """Known names that look like ``name``, the nearest first."""
    known = model_names()
    plain = name.split(".", maxsplit=1)[0].lower()
    close = difflib.get_close_matches(plain, known, n=most, cutoff=0.6)
    return close or [k for k in known if plain and plain in k][:most]
