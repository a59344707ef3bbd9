"""The three scans: a training set, a labelled set to measure, images to predict."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from shanty.errors import RefusedError, UsageError
from shanty.scan.classes import check_known, training_classes
from shanty.scan.dataset import DataSet, ImageList, Sample, digest_of, per_extension
from shanty.scan.labels import table_layout
from shanty.scan.layout import (
    Labelled,
    Layout,
    read_layout,
    read_measured,
    refuse_without_images,
    validation_beside,
)
from shanty.scan.names import counted, extension, is_image_name, nfc, root_text, shown
from shanty.scan.sniff import Look, look_at
from shanty.scan.split import held_out
from shanty.scan.walk import Entry, Tree, name_notes, refuse_twins, walk
from shanty.units import count, percent, plural


@dataclass(frozen=True, kw_only=True)
class _Parts:
    """What goes into a DataSet: classes, both parts, and the sentences on how they came about."""

    classes: tuple[str, ...]
    train: Sequence[Labelled]
    val: Sequence[Labelled]
    notes: tuple[str, ...]


def scan_training(
    root: Path, *, labels: str = "", val_fraction: float, seed: int, empty_class: str
) -> DataSet:
    """Read a training set: class folders, train/ and val/, or a table of ``labels``.

    Without a validation set a part of ``val_fraction`` of every class is held out by ``seed``.

    Raises:
        UsageError: a folder or table that is not there.
        RefusedError: a set that cannot be trained on; the message says what was found.
    """
    tree = walk(root)
    layout = table_layout(tree, labels) if labels else read_layout(tree)
    beside = () if labels else validation_beside(tree.root)
    looks = _looks(tree, layout)
    train = _usable(layout.train.items, looks)
    classes, notes = training_classes(layout.train, train, empty_class)
    if layout.val is None:
        parts = _hold_out(classes, train, val_fraction, seed)
    else:
        lacking = check_known(classes, layout.val, "the validation set")
        val = _usable(layout.val.items, looks)
        parts = _Parts(classes=classes, train=train, val=val, notes=lacking)
    return _assemble(tree, layout, looks, parts, beside + notes)


def scan_labelled(root: Path, classes: tuple[str, ...], *, labels: str = "") -> DataSet:
    """Read a labelled set to be measured with a finished run's ``classes``: all of it in ``val``.

    Raises:
        UsageError: a folder or table that is not there.
        RefusedError: no images, or images of a class that is not among ``classes``.
    """
    tree = walk(root)
    layout = table_layout(tree, labels) if labels else read_measured(tree)
    looks = _looks(tree, layout)
    lacking = check_known(classes, layout.train, "this set")
    val = _usable(layout.train.items, looks)
    if not val:
        raise RefusedError(
            f"no usable image in {shown(tree.root)}", hint="give a folder of class folders"
        )
    parts = _Parts(classes=classes, train=(), val=val, notes=lacking)
    return _assemble(tree, layout, looks, parts, ())


def scan_images(root: Path) -> ImageList:
    """Every image below ``root``, or the one image that ``root`` is.

    Raises:
        UsageError: there is no such folder or file, or the file has no used extension.
        RefusedError: no images, or two whose names differ in Unicode form only.
    """
    if root.is_file():
        return _single(root)
    tree = walk(root)
    refuse_without_images(tree)
    refuse_twins(tree.images)
    looks = {look.entry.path: look for look in look_at(tree.root, tree.images)}
    paths = tuple(e.path for e in tree.images)
    return ImageList(
        root=tree.root,
        paths=paths,
        used=per_extension(paths),
        ignored=per_extension(e.path for e in tree.others),
        notes=name_notes(tree) + _about_ignored(tree) + _about_bad(looks),
        bad=_bad(looks),
    )


def _single(path: Path) -> ImageList:
    if not is_image_name(path.name):
        raise UsageError(
            f"{shown(path.name)} has no known image extension",
            hint="give a folder of images, or a .jpg, .png, .bmp, .gif, .webp or .tif file",
        )
    folder, _, name = root_text(path).rpartition("/")
    root = folder or "/"
    looks = {look.entry.path: look for look in look_at(root, [Entry(name, nfc(name))])}
    return ImageList(
        root=root,
        paths=(name,),
        used={extension(name): 1},
        ignored={},
        notes=_about_bad(looks),
        bad=_bad(looks),
    )


def _looks(tree: Tree, layout: Layout) -> dict[str, Look]:
    """The first bytes of every image that takes part; names must differ in more than their form."""
    items = layout.train.items + (layout.val.items if layout.val else ())
    entries = [item.entry for item in items]
    refuse_twins(entries)
    return {look.entry.path: look for look in look_at(tree.root, entries)}


def _usable(items: Iterable[Labelled], looks: dict[str, Look]) -> list[Labelled]:
    return [item for item in items if not looks[item.entry.path].reason]


def _hold_out(
    classes: tuple[str, ...], items: Sequence[Labelled], fraction: float, seed: int
) -> _Parts:
    groups: dict[str, list[str]] = defaultdict(list)
    for item in items:
        groups[item.label].append(item.entry.key)
    held = frozenset().union(*(held_out(keys, fraction, seed) for keys in groups.values()))
    return _Parts(
        classes=classes,
        train=[i for i in items if i.entry.key not in held],
        val=[i for i in items if i.entry.key in held],
        notes=_about_split(groups, len(held), fraction),
    )


def _about_split(groups: dict[str, list[str]], held: int, fraction: float) -> tuple[str, ...]:
    if fraction <= 0:
        return ("there is no validation set and none is held out",)
    total = sum(map(len, groups.values()))
    first = (
        f"{count(held)} of {plural(total, 'image')} ({percent(held / total)}) held out for"
        " validation"
    )
    single = [name for name, keys in groups.items() if len(keys) < 2]
    verb = "class has" if len(single) == 1 else "classes have"
    alone = f"{len(single):,} {verb} a single image, which is trained on and not validated"
    return (first, alone) if single else (first,)


def _assemble(
    tree: Tree, layout: Layout, looks: dict[str, Look], parts: _Parts, notes: tuple[str, ...]
) -> DataSet:
    own = layout.val.notes if layout.val else ()
    said = layout.notes + layout.train.notes + own + notes + parts.notes
    return DataSet(
        root=tree.root,
        classes=parts.classes,
        train=_samples(parts.train, parts.classes),
        val=_samples(parts.val, parts.classes),
        layout=layout.kind,
        used=per_extension(i.entry.path for i in (*parts.train, *parts.val)),
        ignored=per_extension(e.path for e in tree.others),
        notes=said + name_notes(tree) + _about_ignored(tree) + _about_bad(looks),
        digest=_digest(parts, looks),
        bad=_bad(looks),
    )


def _samples(items: Iterable[Labelled], classes: tuple[str, ...]) -> tuple[Sample, ...]:
    index = {name: i for i, name in enumerate(classes)}
    return tuple(Sample(path=item.entry.path, label=index[item.label]) for item in items)


def _digest(parts: _Parts, looks: dict[str, Look]) -> str:
    return digest_of(
        (item.entry.key, looks[item.entry.path].size, item.label, name)
        for name, items in (("train", parts.train), ("val", parts.val))
        for item in items
    )


def _bad(looks: dict[str, Look]) -> tuple[tuple[str, str], ...]:
    return tuple((look.entry.path, look.reason) for look in looks.values() if look.reason)


def _about_bad(looks: dict[str, Look]) -> tuple[str, ...]:
    bad = _bad(looks)
    if not bad:
        return ()
    verb = plural(len(bad), "file is no image", "files are no images")
    first = ", ".join(f"'{shown(path)}' ({reason})" for path, reason in bad[:3])
    more = f" and {len(bad) - 3:,} more" if len(bad) > 3 else ""
    return (f"{verb} in spite of the extension: {first}{more}",)


def _about_ignored(tree: Tree) -> tuple[str, ...]:
    kinds = dict(Counter(e.kind for e in tree.others))
    if not kinds:
        return ()
    verb = plural(len(tree.others), "file of another kind is", "files of other kinds are")
    return (f"{verb} ignored: {counted(kinds)}",)
