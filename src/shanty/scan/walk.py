"""One walk over a folder: which names there are, in an order that no file system decides."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Literal

from shanty.errors import RefusedError, UsageError
from shanty.scan.names import (
    extension,
    is_hidden,
    is_image_name,
    is_utf8,
    nfc,
    on_disk,
    root_text,
    shown,
    shown_pair,
    text,
)
from shanty.spec.codec import nearest
from shanty.units import plural

Kind = Literal["folder", "image", "other", "hidden", "loop"]


@dataclass(frozen=True, slots=True)
class Entry:
    """A name below the root: ``path`` as on disk, ``key`` composed (NFC), for order and match."""

    path: str
    key: str

    @property
    def kind(self) -> str:
        """Lower-case extension without the dot."""
        return extension(self.path)


@dataclass(frozen=True, kw_only=True)
class Tree:
    """Everything below a folder, sorted by key. ``others`` are files of no used extension."""

    root: str
    folders: tuple[Entry, ...]
    images: tuple[Entry, ...]
    others: tuple[Entry, ...]
    hidden: int
    loops: tuple[str, ...]


def check_folder(root: Path) -> None:
    """Raise UsageError unless ``root`` is a folder."""
    if root.is_dir():
        return
    name = shown(root_text(root))
    if root.exists():
        hint = "unpack it and give the folder" if _is_archive(root) else "give the folder it is in"
        raise UsageError(f"{name} is a file, not a folder", hint=hint)
    beside = [shown(name) for name in folder_names(root.parent)]
    hint = nearest(shown(text(os.fsencode(root.name))), beside) if beside else "check the spelling"
    raise UsageError(f"there is no folder {name}", hint=hint)


def _is_archive(path: Path) -> bool:
    return path.suffix.lower() in {".zip", ".tar", ".gz", ".tgz", ".7z", ".rar", ".xz", ".bz2"}


def folder_names(parent: Path) -> list[str]:
    """Visible folders directly in ``parent``; none when it cannot be read."""
    try:
        names = [text(os.fsencode(p.name)) for p in parent.iterdir() if p.is_dir()]
    except OSError:
        return []
    return [name for name in names if not is_hidden(name)]


def walk(root: Path) -> Tree:
    """All names below ``root``; links are followed, but not back into a folder around them.

    Raises:
        UsageError: ``root`` is missing or a file.
        RefusedError: a folder cannot be read.
    """
    check_folder(root)
    start = root_text(root)
    found: dict[Kind, list[str]] = {k: [] for k in ("folder", "image", "other", "hidden", "loop")}
    for kind, path in _visit(start):
        found[kind].append(path)
    return Tree(
        root=start,
        folders=_entries(found["folder"]),
        images=_entries(found["image"]),
        others=_entries(found["other"]),
        hidden=len(found["hidden"]),
        loops=tuple(sorted(found["loop"])),
    )


def _entries(paths: list[str]) -> tuple[Entry, ...]:
    entries = (Entry(path, nfc(path)) for path in paths)
    return tuple(sorted(entries, key=attrgetter("key", "path")))


def _visit(root: str) -> Iterator[tuple[Kind, str]]:
    stack = [("", frozenset({_identity(root, "")}))]
    while stack:
        folder, around = stack.pop()
        for item in _listing(root, folder):
            name = text(item.name)
            path = f"{folder}/{name}" if folder else name
            if is_hidden(name):
                yield "hidden", path
            elif not _is_folder(item):
                yield ("image" if is_image_name(name) else "other"), path
            elif (here := _identity(root, path)) in around:
                yield "loop", path
            else:
                yield "folder", path
                stack.append((path, around | {here}))


def _listing(root: str, folder: str) -> list[os.DirEntry[bytes]]:
    try:
        with os.scandir(on_disk(root, folder)) as items:
            return list(items)
    except OSError as error:
        raise RefusedError(
            f"the folder {shown(f'{root}/{folder}')} cannot be read: {error.strerror}",
            hint="give the user who runs shanty read access, or move the folder away",
        ) from error


def _is_folder(item: os.DirEntry[bytes]) -> bool:
    try:
        return item.is_dir()
    except OSError:  # a link to itself
        return False


def _identity(root: str, path: str) -> tuple[int, int]:
    stat = os.stat(on_disk(root, path))  # noqa: PTH116 - a bytes path: pathlib has only text
    return stat.st_dev, stat.st_ino


def refuse_twins(entries: Iterable[Entry]) -> None:
    """Raise RefusedError for two entries whose names differ in Unicode form only."""
    seen: dict[str, str] = {}
    for entry in entries:
        other = seen.setdefault(entry.key, entry.path)
        if other != entry.path:
            raise RefusedError(
                f"two files have the same name in different Unicode forms: "
                f"{shown_pair(other, entry.path)}",
                hint="delete or rename one of the two files",
            )


def name_notes(tree: Tree) -> tuple[str, ...]:
    """Sentences about names: decomposed, not UTF-8, hidden, looping links."""
    used = tree.folders + tree.images
    decomposed = sum(_last(e.path) != nfc(_last(e.path)) for e in used)
    foreign = sum(not is_utf8(_last(e.path)) for e in used)
    notes = (
        (
            decomposed,
            "decomposed name (NFD) is|decomposed names (NFD) are",
            "compared composed (NFC)",
        ),
        (foreign, "name is|names are", "not valid UTF-8 and used byte by byte"),
        (tree.hidden, "hidden file or folder is|hidden files or folders are", "left out"),
        (len(tree.loops), "link is|links are", "not followed: back to a folder around it"),
    )
    return tuple(
        f"{plural(count, *words.split('|'))} {what}" for count, words, what in notes if count
    )


def _last(path: str) -> str:
    return path.rpartition("/")[2]
