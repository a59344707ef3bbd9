"""Layout: how a submission will look, decided completely before anything is predicted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["label", "probability"]


@dataclass(frozen=True, kw_only=True)
class Layout:
    """One submission without its answers. Plain data: it can be saved between two processes.

    ``ids`` and ``paths`` (relative to the image folder) are in output order, ``columns`` are all
    header cells in the template's own spelling, ``id_column`` is one of them.
    ``class_of_column`` pairs each other column with its class (kind ``probability``);
    ``text_of_class`` pairs each class with what is written for it (kind ``label``).

    ``encoding`` is Python's name for it (``utf-8-sig`` writes a BOM), ``newline`` ends a line and
    ``final_newline`` says whether the last line is ended too. ``notes`` are sentences for the
    person, none of them a reason to stop.
    """

    ids: tuple[str, ...]
    paths: tuple[str, ...]
    kind: Kind
    id_column: str
    columns: tuple[str, ...]
    class_of_column: tuple[tuple[str, str], ...] = ()
    text_of_class: tuple[tuple[str, str], ...] = ()
    encoding: str = "utf-8"
    newline: str = "\n"
    delimiter: str = ","
    final_newline: bool = True
    notes: tuple[str, ...] = ()
