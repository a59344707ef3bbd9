"""How class names and column names are compared, and how a few of many are told."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from shanty.errors import RefusedError
from shanty.scan.names import listed, nfc, shown, shown_pair
from shanty.scan.tables import Table


def folded(name: str) -> str:
    """The form in which two spellings are one name: NFC, no surrounding spaces."""
    return nfc(name).strip()


def index_by_name(names: Sequence[str], where: str) -> dict[str, int]:
    """Position of every name, by its folded form.

    Raises:
        RefusedError: two names are the same name; both are shown.
    """
    found: dict[str, int] = {}
    for index, name in enumerate(names):
        first = found.setdefault(folded(name), index)
        if first != index:
            raise RefusedError(
                f"{where}: number {first + 1} and {index + 1}, {shown_pair(names[first], name)}, "
                "are the same name",
                hint="give every class or column its own name",
            )
    return found


def some(names: Sequence[str]) -> str:
    """How many, and the first five: ``7 ('a', 'b', 'c', 'd', 'e' and 2 more)``."""
    return f"{len(names):,} ({listed(list(names))})"


def resembling(name: str, known: Sequence[str]) -> str:
    """The known name nearest to this one, or nothing; upper and lower case do not count."""
    by_case = {folded(k).casefold(): k for k in reversed(known)}
    close = difflib.get_close_matches(folded(name).casefold(), list(by_case), n=1, cutoff=0.6)
    return by_case[close[0]] if close else ""


def file_name(table: Table) -> str:
    """The table's file name, as it is shown to a person."""
    return shown(table.path.rpartition("/")[2])
