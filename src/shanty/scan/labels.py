"""A table of labels: which columns, which files, one label per file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from shanty.errors import RefusedError, UsageError
from shanty.scan.ids import match_ids
from shanty.scan.layout import Labelled, Layout, Part, refuse_without_images
from shanty.scan.names import as_path, listed, nfc, shown
from shanty.scan.tables import Table, read_table
from shanty.scan.walk import Tree
from shanty.units import plural

# In order of preference: a table with both `id` and `img_path` means the second.
_PATHS = ("path", "file_path", "filepath", "img_path", "image_path", "file", "filename")
_PATHS += ("file_name", "image", "img", "image_id", "id", "name")
_LABELS = ("label", "class", "target", "category", "class_name", "label_name")


@dataclass(frozen=True, kw_only=True)
class _Columns:
    path: int
    label: int
    headed: bool
    note: str = ""


def table_layout(tree: Tree, labels: str) -> Layout:
    """The labelled images that a table names; the table lies in the root or at its own path.

    Raises:
        UsageError: there is no such table, or it is no table.
        RefusedError: ids without a file, an id with two labels, a row without label.
    """
    refuse_without_images(tree)
    table = read_table(find_table(tree.root, labels))
    paths = [e.path for e in tree.images]
    columns = _columns(table, paths)
    pairs = _pairs(table, columns)
    found = _files(table, [name for name, _ in pairs], tree)
    chosen = _one_label_each(pairs, found)
    items = tuple(Labelled(e, chosen[e.path]) for e in tree.images if e.path in chosen)
    names = tuple(sorted(set(chosen.values())))
    part = Part(names=names, items=items, others={}, notes=_notes(columns, pairs, tree, items))
    return Layout(kind="table", train=part, val=None)


def find_table(root: str, labels: str) -> Path:
    """The table's path: as given, or else inside the image root.

    Raises:
        UsageError: neither exists.
    """
    for path in (as_path(labels), as_path(f"{root}/{labels}")):
        if path.is_file():
            return path
    raise UsageError(
        f"there is no table {shown(labels)}, neither here nor in {shown(root)}",
        hint="give the path of the CSV file: --set data.labels=PATH",
    )


def _columns(table: Table, paths: Sequence[str]) -> _Columns:
    width = len(table.header)
    if width < 2:
        raise UsageError(
            f"{shown(table.path)} has a single column", hint="it needs a path and a label column"
        )
    words = [cell.strip().lower() for cell in table.header]
    path = next((words.index(w) for w in _PATHS if w in words), None)
    label = next((words.index(w) for w in _LABELS if w in words), None)
    if path is not None and label is not None:
        return _Columns(path=path, label=label, headed=True)
    if width == 2 and (path is not None or label is not None):
        path = 1 - (label or 0) if path is None else path
        return _Columns(path=path, label=1 - path, headed=True)
    if path is None and label is None:
        return _first_two(table, paths)
    raise UsageError(
        f"it is not clear which columns of {shown(table.path)} are meant: {listed(words, 10)}",
        hint="name the two columns 'path' and 'label'",
    )


def _first_two(table: Table, paths: Sequence[str]) -> _Columns:
    """No known header: the first two columns; a first row that names a file is no header."""
    if match_ids(table.header[:1], paths).found:
        return _Columns(path=0, label=1, headed=False, note="the table has no header")
    note = f"the columns {listed(list(table.header[:2]))} are read as path and label"
    return _Columns(path=0, label=1, headed=True, note=note)


def _pairs(table: Table, columns: _Columns) -> list[tuple[str, str]]:
    """(id, label) of every row: outer spaces off, labels in NFC and always text."""
    rows = table.rows if columns.headed else (table.header, *table.rows)
    if not rows:
        raise RefusedError(f"{shown(table.path)} has no rows", hint="give one row per image")
    pairs = [(row[columns.path].strip(), nfc(row[columns.label].strip())) for row in rows]
    for number, (name, label) in enumerate(pairs, 1):
        if not name or not label:
            what = "label" if name else "path"
            raise RefusedError(
                f"row {number} of {shown(table.path)} has no {what}: '{shown(name or label)}'",
                hint="fill it in or delete the row",
            )
    return pairs


def _files(table: Table, ids: Sequence[str], tree: Tree) -> dict[str, str]:
    match = match_ids(ids, [e.path for e in tree.images])
    if match.missing:
        count = len(match.missing)
        raise RefusedError(
            f"{plural(count, 'id')} of {len(set(ids)):,} in {shown(table.path)} match no image"
            f" below {shown(tree.root)}: {listed(list(match.missing))}",
            hint="give the folder that the paths start from, or delete these rows",
        )
    return match.found


def _one_label_each(pairs: list[tuple[str, str]], found: dict[str, str]) -> dict[str, str]:
    chosen: dict[str, str] = {}
    for name, label in pairs:
        known = chosen.setdefault(found[name], label)
        if known != label:
            raise RefusedError(
                f"the id '{shown(name)}' has two labels: '{shown(known)}' and '{shown(label)}'",
                hint="keep one row per image",
            )
    return chosen


def _notes(
    columns: _Columns, pairs: list[tuple[str, str]], tree: Tree, items: tuple[Labelled, ...]
) -> tuple[str, ...]:
    notes = [columns.note] if columns.note else []
    if len(pairs) > len(items):
        count = plural(len(pairs) - len(items), "row repeats", "rows repeat")
        notes.append(f"{count} an image with the same label, counted once")
    if len(tree.images) > len(items):
        count = plural(len(tree.images) - len(items), "image is", "images are")
        notes.append(f"{count} not in the table and left out")
    return tuple(notes)
