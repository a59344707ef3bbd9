"""Where a run's settings come from: defaults < config file < options < ``--set``.

Every source becomes a flat table ``optim.lr -> Given(value, where it stands)``; the tables are laid
over each other, and pydantic checks the types of the result. So a mistake is always told with the
place where the person wrote it: the file and its line, the option, or the ``--set``.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args, get_type_hints

from shanty.cli.names import KEYS, leaf_of, suggest
from shanty.cli.tomlfile import TomlFile, parse
from shanty.errors import UsageError
from shanty.spec.config import RunConfig, check


@dataclass(frozen=True, kw_only=True)
class Given:
    """A value and the place where the person wrote it."""

    value: Any
    origin: str


Table = dict[str, Given]


def load(
    file: Path | None = None, options: Mapping[str, Any] | None = None, sets: Iterable[str] = ()
) -> RunConfig:
    """The checked config from all sources; *auto* values are still ``None`` in it.

    Args:
        file: a TOML file, or None.
        options: dotted key to value; None stands for an option that was not given.
        sets: ``a.b=value`` texts, the value in TOML, or a bare word.

    Raises:
        UsageError: an unknown key (with the nearest), a wrong type, a value out of range.
    """
    return build(table_of(file, options or {}, sets))


def table_of(file: Path | None, options: Mapping[str, Any], sets: Iterable[str]) -> Table:
    """Everything that was given, the stronger source over the weaker."""
    table: Table = {} if file is None else _from_file(TomlFile.read(file))
    for key, value in options.items():
        if value is not None:
            table[key] = Given(value=value, origin="--" + leaf_of(key))
    for text in sets:
        table |= _from_set(text)
    return table


def _from_file(file: TomlFile) -> Table:
    return {key: Given(value=value, origin=file.place(key)) for key, value in file.flat()}


def _from_set(text: str) -> Table:
    key, equals, raw = (part.strip() for part in text.partition("="))
    if not equals or not key:
        raise UsageError(f"--set {text} has no key and value", hint="write: --set optim.lr=0.1")
    origin = f"--set {text}"
    if key not in KEYS:
        raise UsageError(f"{origin}: unknown key {key}", hint=suggest(key))
    try:
        value = parse(f"value = {raw}", origin)["value"]
    except UsageError:
        value = raw  # a bare word: --set optim.name=sgd
    return {key: Given(value=value, origin=origin)}


def build(table: Table) -> RunConfig:
    """The config that a flat table asks for, its types and limits checked."""
    nested: dict[str, Any] = {}
    for key, given in table.items():
        section, _, leaf = key.rpartition(".")
        home = nested.setdefault(section, {}) if section else nested
        home[leaf] = _plain(key, given)
    config = _typed(nested, table)
    try:
        check(config)
    except UsageError as error:
        key = error.what.split(" = ")[0]
        where = f"{table[key].origin}: " if key in table else ""
        raise UsageError(where + error.what, hint=error.hint) from error
    return config


def _plain(key: str, given: Given) -> Any:
    """A value JSON can carry; the word ``auto`` is None where the field has an automatic value."""
    value = given.value
    if value == "auto" and may_be_auto(key):
        return None
    if isinstance(value, float) and not math.isfinite(value):
        raise UsageError(
            f"{given.origin}: {key} = {value} is not a finite number", hint="give a finite number"
        )
    if value is None or isinstance(value, str | int | float):
        return value
    raise UsageError(
        f"{given.origin}: {key} = {value} is not one single value", hint="give one number or text"
    )


def may_be_auto(dotted: str) -> bool:
    """True when the field accepts None, which means *auto*."""
    return type(None) in get_args(hint_of(dotted))


def hint_of(dotted: str) -> Any:
    """The type that the field of a dotted key is declared with."""
    kind: Any = RunConfig
    for part in dotted.split("."):
        kind = get_type_hints(kind)[part]
    return kind


def _typed(nested: dict[str, Any], table: Table) -> RunConfig:
    from pydantic import TypeAdapter, ValidationError  # slow to import: only when needed

    try:
        # strict JSON: a table may fill a dataclass, but "10" is no number and 1 is no truth value
        return TypeAdapter(RunConfig).validate_json(json.dumps(nested), strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"][:2])
        key = key if key in table else str(first["loc"][0]) if first["loc"] else ""
        given = table.get(key, Given(value=first["input"], origin="settings"))
        wanted = first["msg"].removeprefix("Input should be ")
        raise UsageError(
            f"{given.origin}: {key} = {given.value!r} is not accepted", hint=f"give {wanted}"
        ) from error


def absolute(config: RunConfig) -> RunConfig:
    """The same config with its file names made absolute: workers start in another folder.

    Raises:
        UsageError: a named file does not exist.
    """
    weights = _file(config.model.weights, "weights")
    labels = _file(config.data.labels, "label table")
    return replace(
        config,
        model=replace(config.model, weights=weights),
        data=replace(config.data, labels=labels),
    )


def _file(name: str, what: str) -> str:
    if not name:
        return ""
    path = Path(name).expanduser()
    if not path.is_file():
        raise UsageError(f"no {what} file at {path}", hint="check the path and its spelling")
    return str(path.resolve())
