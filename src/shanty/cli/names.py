"""The dotted names of every setting, and which of them a misspelt one may have meant."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from difflib import get_close_matches
from typing import Any

from shanty.spec.config import RunConfig


def _walk(value: Any, prefix: str) -> list[str]:
    keys: list[str] = []
    for item in fields(value):
        inner = getattr(value, item.name)
        name = prefix + item.name
        keys += _walk(inner, f"{name}.") if is_dataclass(inner) else [name]
    return keys


# Every setting as ``section.key`` (or ``key`` at the top), in the order of the config file.
KEYS = tuple(_walk(RunConfig(), ""))
SECTIONS = tuple(dict.fromkeys(key.split(".")[0] for key in KEYS if "." in key))


def leaf_of(key: str) -> str:
    """The last part of a dotted key."""
    return key.rsplit(".", 1)[-1]


def suggest(dotted: str) -> str:
    """``did you mean 'optim.lr'?`` for the settings nearest to an unknown one.

    The same last part in another section comes first, then a near spelling in the same section,
    then anywhere.
    """
    leaf, section = leaf_of(dotted), dotted.rpartition(".")[0]
    inside = [key for key in KEYS if key.rpartition(".")[0] == section]
    # Where the section is right, the whole dotted names are all alike and prove nothing.
    whole: list[str] = [] if section in SECTIONS else [*KEYS, *SECTIONS]
    found = (
        [key for key in KEYS if leaf_of(key) == leaf]
        or _near(leaf, inside)
        or get_close_matches(dotted, whole, n=1)
        or _near(leaf, list(KEYS))
    )
    if found:
        return "did you mean " + " or ".join(repr(key) for key in found) + "?"
    return "choose one of: " + ", ".join(sorted(inside or KEYS)[:20])


def _near(leaf: str, keys: list[str]) -> list[str]:
    match = get_close_matches(leaf, [leaf_of(key) for key in keys], n=1)
    return [key for key in keys if leaf_of(key) in match]
