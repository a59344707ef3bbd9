"""Match the ids of a table to files: folders, slashes, extensions and Unicode forms may differ."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from shanty.errors import RefusedError
from shanty.scan.names import USED, extension, nfc, shown, shown_pair


@dataclass(frozen=True, kw_only=True)
class Matching:
    """Which file each id means. ``missing``: ids without a file; ``extra``: files without an id."""

    found: dict[str, str]
    missing: tuple[str, ...]
    extra: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class _Index:
    """Paths by every form they can be asked for in."""

    exact: frozenset[str]
    whole: dict[str, list[str]]
    tails: dict[str, list[str]]


def match_ids(ids: Sequence[str], paths: Sequence[str]) -> Matching:
    """Find the file of every id.

    The first of these that gives a file decides: the same text; the same after ``plain``; the path
    ends the id (``/home/kim/train/A.jpg``) or the id ends the path (``A.jpg``), at a folder's
    border; the same three for an id without extension.

    Raises:
        RefusedError: an id fits two files, or two different ids lead to one file.
    """
    asked = dict.fromkeys(ids)
    forms = [plain(p) for p in paths]
    full = _index(paths, forms)
    short = any(extension(name.strip()) not in USED for name in asked)
    bare = _index(paths, [_stem(f) for f in forms]) if short else _index((), ())
    found: dict[str, str] = {}
    for name in asked:
        hits = _hits(name, full, bare)
        if len(hits) > 1:
            raise RefusedError(
                f"the id '{shown(name)}' fits two files: {shown_pair(hits[0], hits[1])}",
                hint="write the path of the file, from the image folder on, as the id",
            )
        if hits:
            found[name] = hits[0]
    _refuse_shared(found)
    taken = set(found.values())
    return Matching(
        found=found,
        missing=tuple(name for name in asked if name not in found),
        extra=tuple(path for path in paths if path not in taken),
    )


def plain(name: str) -> str:
    """An id or path in one form: NFC, ``/``, no ``./`` or outer spaces, lower-case extension."""
    parts = nfc(name).strip().replace("\\", "/").split("/")
    joined = "/".join(p for p in parts if p not in {"", "."})
    kind = extension(joined)
    return joined[: -len(kind)] + kind if kind in USED else joined


def _stem(name: str) -> str:
    kind = extension(name)
    return name[: -len(kind) - 1] if kind in USED else name


def _index(paths: Sequence[str], forms: Sequence[str]) -> _Index:
    whole: dict[str, list[str]] = defaultdict(list)
    tails: dict[str, list[str]] = defaultdict(list)
    for path, form in sorted(set(zip(paths, forms, strict=True))):
        whole[form].append(path)
        for tail in _tails(form):
            tails[tail].append(path)
    return _Index(exact=frozenset(paths), whole=dict(whole), tails=dict(tails))


def _tails(name: str) -> Iterator[str]:
    """Every shorter ending of a path that starts at a folder's border, longest first."""
    while "/" in name:
        name = name.partition("/")[2]
        yield name


def _hits(name: str, full: _Index, bare: _Index) -> list[str]:
    if name in full.exact:
        return [name]
    form = plain(name)
    return _in(form, full) or ([] if extension(form) in USED else _in(form, bare))


def _in(form: str, index: _Index) -> list[str]:
    if not form:
        return []
    for candidate in (form, *_tails(form)):
        if candidate in index.whole:
            return index.whole[candidate]
    return index.tails.get(form, [])


def _refuse_shared(found: dict[str, str]) -> None:
    """Two ids may share a file only if one is the shorter way to write the other."""
    first: dict[str, str] = {}
    for name, path in found.items():
        other = first.setdefault(path, name)
        if other != name and not _same_tail(_stem(plain(other)), _stem(plain(name))):
            raise RefusedError(
                f"the ids '{shown(other)}' and '{shown(name)}' lead to the one file"
                f" '{shown(path)}'",
                hint="give the image folder that also holds the folders the ids name",
            )


def _same_tail(one: str, two: str) -> bool:
    short, long = sorted((one, two), key=len)
    return long == short or long.endswith("/" + short)
