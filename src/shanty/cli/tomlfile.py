"""A TOML config file that still knows on which line a setting stands."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shanty.cli.names import KEYS, SECTIONS, suggest
from shanty.errors import UsageError

_HEAD = re.compile(r"\s*\[\s*([\w.\-\"]+)\s*\]")
_KEY = re.compile(r"\s*([\w.\-\"]+)\s*=")


def parse(text: str, origin: str) -> dict[str, Any]:
    """TOML text as nested tables.

    Raises:
        UsageError: it is no TOML; the parser's message names line and column.
    """
    try:
        import tomllib
    except ModuleNotFoundError:  # Python 3.10
        import tomli as tomllib
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise UsageError(
            f"{origin} is not valid TOML: {error}",
            hint='every line is key = value, and text has quotes: name = "resnet18"',
        ) from error


@dataclass(frozen=True, kw_only=True)
class TomlFile:
    """The file's path and text."""

    path: Path
    text: str

    @classmethod
    def read(cls, path: Path) -> TomlFile:
        """Read a file; a byte order mark and Windows line ends are accepted.

        Raises:
            UsageError: it is missing, unreadable or not UTF-8.
        """
        try:
            text = path.read_bytes().decode("utf-8-sig")
        except OSError as error:
            raise UsageError(
                f"config file {path}: {error.strerror or 'cannot be read'}",
                hint="make one: shanty config > run.toml",
            ) from error
        except UnicodeDecodeError as error:
            raise UsageError(f"config file {path} is not UTF-8", hint="save it as UTF-8") from error
        return cls(path=path, text=text.replace("\r\n", "\n"))

    def flat(self) -> list[tuple[str, Any]]:
        """Every setting in the file as dotted key and value.

        Raises:
            UsageError: no TOML, or a key that no setting has.
        """
        return self._flatten(parse(self.text, f"config file {self.path}"), "")

    def _flatten(self, data: dict[str, Any], prefix: str) -> list[tuple[str, Any]]:
        found: list[tuple[str, Any]] = []
        for name, value in data.items():
            key = prefix + name
            if key in KEYS:
                found.append((key, value))
            elif key not in SECTIONS:
                raise UsageError(f"{self.place(key)}: unknown key {key}", hint=suggest(key))
            elif not isinstance(value, dict):
                what = f"{self.place(key)}: {key} is a section, not a value"
                raise UsageError(what, hint=f"write its keys below a line [{key}]")
            else:
                found += self._flatten(value, f"{key}.")
        return found

    def place(self, dotted: str) -> str:
        """File and, where it can be found, line of a setting."""
        line = self.line_of(dotted)
        return f"{self.path} line {line}" if line else str(self.path)

    def line_of(self, dotted: str) -> int | None:
        """The line (from 1) on which a setting or section stands; None inside inline tables."""
        section = ""
        for number, line in enumerate(self.text.splitlines(), 1):
            if head := _HEAD.match(line):
                name = head[1].replace('"', "")
                section = name + "."
                if name == dotted:
                    return number
            elif (key := _KEY.match(line)) and section + key[1].replace('"', "") == dotted:
                return number
        return None
