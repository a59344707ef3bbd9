"""Which rows a submission has: ids in output order, each with its image file, none without."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from shanty.errors import RefusedError
from shanty.predict.names import file_name, folded, some
from shanty.scan.dataset import ImageList
from shanty.scan.ids import match_ids
from shanty.scan.names import listed, shown
from shanty.scan.tables import Table

# A column called "image" may hold ids beside one called "img_path": the sure names come first.
_PATH_NAMES = ("img_path", "image_path", "path", "file_path", "filepath", "filename", "file_name")
_PATH_NAMES_LAST = ("file", "image", "img")


@dataclass(frozen=True, kw_only=True)
class Listing:
    """What a table of images says: its name, and the file of every id in the table's order."""

    source: str
    files: dict[str, str]


def ids_of_folder(paths: Sequence[str]) -> tuple[str, ...]:
    """An id per file: its path without the extension.

    If two files would share an id (``a.jpg``, ``a.png``), all ids keep their extension.
    """
    short = tuple(str(PurePosixPath(path).with_suffix("")) for path in paths)
    return short if len({folded(i) for i in short}) == len(paths) else tuple(paths)


def list_table(table: Table, images: ImageList) -> Listing:
    """The rows of a table of images. Its paths are relative to its folder or to the image root.

    Files that the table does not name are none of its business. Two ids may name one file.

    Raises:
        RefusedError: no path column, an id stands twice, or a path leads to no image.
    """
    source = file_name(table)
    path_at = _path_column(table)
    id_at = next((i for i in range(len(table.header)) if i != path_at), path_at)
    ids = [row[id_at] for row in table.rows]
    refuse_repeats(ids, source)
    folder = table.path.rpartition("/")[0] or "/"
    cells = [_from_root(row[path_at], folder, images.root) for row in table.rows]
    matching = match_ids(cells, images.paths)
    refuse_difference([("paths without an image", matching.missing)], source, images.root)
    return Listing(
        source=source,
        files={name: matching.found[cell] for name, cell in zip(ids, cells, strict=True)},
    )


def files_of_folder(ids: Sequence[str], images: ImageList, source: str) -> tuple[str, ...]:
    """The file of every template id; every image of the folder has to have its id.

    Raises:
        RefusedError: an id without an image, an image without an id, or two ids with one image.
    """
    matching = match_ids(ids, images.paths)
    first: dict[str, str] = {}
    for name, path in matching.found.items():
        other = first.setdefault(path, name)
        if other != name:
            raise RefusedError(
                f"{source}: the ids {listed([other, name])} are both the image {shown(path)}",
                hint="every image needs exactly one row: remove one of the two",
            )
    refuse_difference(
        [("ids without an image", matching.missing), ("images without an id", matching.extra)],
        source,
        images.root,
    )
    return tuple(matching.found[name] for name in ids)


def files_of_listing(ids: Sequence[str], listing: Listing, source: str) -> tuple[str, ...]:
    """The file of every template id, by way of a table's ids.

    Raises:
        RefusedError: template and table do not hold the same ids.
    """
    file_of = {folded(name): path for name, path in listing.files.items()}
    asked = {folded(name) for name in ids}
    missing = [name for name in ids if folded(name) not in file_of]
    extra = [name for name in listing.files if folded(name) not in asked]
    refuse_difference(
        [(f"ids only in {source}", missing), (f"ids only in {listing.source}", extra)],
        source,
        listing.source,
    )
    return tuple(file_of[folded(name)] for name in ids)


def refuse_repeats(ids: Sequence[str], source: str) -> None:
    """Raise RefusedError naming the ids that stand more than once, or when there is no id."""
    if not ids:
        raise RefusedError(f"{source} has a header but no rows", hint="it needs one row per image")
    seen: set[str] = set()
    twice: dict[str, None] = {}
    for name in ids:
        if folded(name) in seen:
            twice[folded(name)] = None
        seen.add(folded(name))
    if twice:
        raise RefusedError(
            f"{source}: ids that stand more than once: {some(list(twice))}",
            hint="every image needs exactly one row: remove the repeated ones",
        )


def refuse_difference(parts: Sequence[tuple[str, Sequence[str]]], source: str, other: str) -> None:
    """Raise RefusedError when any of the lists of names is not empty."""
    told = "; ".join(f"{what}: {some(names)}" for what, names in parts if names)
    if told:
        raise RefusedError(
            f"{source} and {shown(other)} do not fit: {told}",
            hint="give the images and the table of the same test set, complete",
        )


def _path_column(table: Table) -> int:
    words = [folded(cell).casefold() for cell in table.header]
    for name in (*_PATH_NAMES, *_PATH_NAMES_LAST):
        if name in words:
            return words.index(name)
    raise RefusedError(
        f"{file_name(table)} has no column with image paths: {some(table.header)}",
        hint="call that column img_path",
    )


def _from_root(cell: str, folder: str, root: str) -> str:
    """A table's path as seen from the image root; unchanged when it does not lie there."""
    asked = PurePosixPath(folder, cell.strip().replace("\\", "/"))
    inside = PurePosixPath(os.path.relpath(asked, root))
    return cell if inside.parts[:1] == ("..",) else str(inside)
