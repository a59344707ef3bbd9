"""Frozen dataclasses to plain JSON data and back, strictly: one side writes, the other reads."""

from __future__ import annotations

import difflib
import types
from dataclasses import asdict, fields, is_dataclass
from functools import cache
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from shanty.errors import UsageError

T = TypeVar("T")


def to_dict(value: Any) -> dict[str, Any]:
    """A dataclass as nested plain data."""
    return asdict(value)


def nearest(word: str, known: list[str]) -> str:
    """``did you mean 'x'?`` for the closest known word, or the whole list when none is close."""
    close = difflib.get_close_matches(word, known, n=3, cutoff=0.6)
    if close:
        return "did you mean " + " or ".join(repr(c) for c in close) + "?"
    return "choose one of: " + ", ".join(sorted(known)[:20])


def from_dict(kind: type[T], data: dict[str, Any], where: str = "") -> T:
    """Rebuild a dataclass from plain data.

    Raises:
        UsageError: a key that the class does not have, with the nearest one that it has.
        TypeError: ``data`` is no mapping, or a key that the class needs is missing.
    """
    if not isinstance(data, dict):
        raise TypeError(f"{where or kind.__name__} is no mapping")
    names, hints = _shape(kind)
    for key in data:
        if key not in names:
            raise UsageError(f"unknown key {where}{key}", hint=nearest(key, names))
    return kind(**{k: _convert(hints[k], v, f"{where}{k}.") for k, v in data.items()})


@cache  # a data set rebuilds thousands of samples of one class
def _shape(kind: Any) -> tuple[list[str], dict[str, Any]]:
    return [f.name for f in fields(kind)], get_type_hints(kind)


def _convert(hint: Any, value: Any, where: str) -> Any:
    if is_dataclass(hint) and isinstance(value, dict):
        return from_dict(hint, value, where)  # type: ignore[arg-type]
    origin, args = get_origin(hint), get_args(hint)
    if origin is tuple and isinstance(value, (list, tuple)):
        inner = args[0] if args else Any
        return tuple(_convert(inner, item, where) for item in value)
    if origin in (Union, types.UnionType):
        if value is None:
            return None
        for arg in args:
            if arg is not type(None):
                return _convert(arg, value, where)
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    return value
