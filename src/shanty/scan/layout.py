"""Which folders are classes, and which hold the training and the validation part. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath

from shanty.errors import RefusedError
from shanty.scan.names import as_path, counted, is_utf8, listed, nfc, shown
from shanty.scan.walk import Entry, Tree, folder_names
from shanty.units import plural

_TRAIN = frozenset({"train", "training"})
_VAL = frozenset({"val", "valid", "validation"})
_REST = frozenset({"test", "testing", "submission", "predict"})


@dataclass(frozen=True, slots=True)
class Labelled:
    """One image and the name of its class (NFC)."""

    entry: Entry
    label: str


@dataclass(frozen=True, kw_only=True)
class Part:
    """The class folders below one folder.

    Attributes:
        names: every class, also those without an image, sorted by code point.
        items: images of the classes, sorted by key; loose ones have no class and are not here.
        others: per class the files of no used extension, counted per extension.
        notes: sentences about this part.
    """

    names: tuple[str, ...]
    items: tuple[Labelled, ...]
    others: dict[str, dict[str, int]]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Layout:
    """What the folder is: its kind, the training part, the validation part if there is one."""

    kind: str
    train: Part
    val: Part | None
    notes: tuple[str, ...] = ()


def read_layout(tree: Tree) -> Layout:
    """Find the class folders of a training set.

    Raises:
        RefusedError: no images, no class folders, or folders that can be read in two ways.
    """
    refuse_without_images(tree)
    splits = _split_folders(tree)
    if splits is None:
        return Layout(kind="class folders", train=class_part(tree, ""), val=None)
    train, val, rest = splits
    if not train:
        raise RefusedError(
            f"{shown(tree.root)} holds {listed(val + rest)} but no train folder",
            hint="name the training part 'train', or give the folder of class folders",
        )
    notes = tuple(f"the folder '{shown(f)}' takes no part in training" for f in rest)
    part = class_part(tree, _only(train))
    if not val:
        notes += tuple(
            f"the folder '{shown(f.path)}' holds no file and is left out"
            for f in tree.folders
            if f.path.lower() in _VAL
        )
        return Layout(kind="train folder", train=part, val=None, notes=notes)
    held = class_part(tree, _only(val))
    return Layout(kind="train and val folders", train=part, val=held, notes=notes)


def validation_beside(root: str) -> tuple[str, ...]:
    """A note when ``root`` is a train folder and a validation folder lies beside it."""
    above, _, name = root.rpartition("/")
    if name.lower() not in _TRAIN:
        return ()
    beside = sorted(f for f in folder_names(as_path(above or "/")) if f.lower() in _VAL)
    say = "the folder '{}' beside it is not used: give {} to validate on it"
    return tuple(say.format(shown(f), shown(above or "/")) for f in beside[:1])


def read_measured(tree: Tree) -> Layout:
    """Find the class folders of a set that is only measured; of train and val it takes val.

    Raises:
        RefusedError: no images, no class folders, or only a train folder.
    """
    refuse_without_images(tree)
    splits = _split_folders(tree)
    if splits is None:
        return Layout(kind="class folders", train=class_part(tree, ""), val=None)
    train, val, rest = splits
    if not val:
        raise RefusedError(
            f"{shown(tree.root)} holds {listed(train + rest)}: it is not clear what to measure",
            hint="give one of these folders instead",
        )
    folder = _only(val)
    note = f"the folder '{shown(folder)}' is measured"
    return Layout(kind="val folder", train=class_part(tree, folder), val=None, notes=(note,))


def refuse_without_images(tree: Tree) -> None:
    """Raise RefusedError when no file has a used extension, naming what there is instead."""
    if tree.images:
        return
    kinds = Counter(e.kind for e in tree.others)
    found = counted(dict(kinds)) if kinds else "it is empty"
    if not kinds and (tree.folders or tree.hidden):
        found = f"{plural(len(tree.folders), 'folder')} and no visible file"
    raise RefusedError(
        f"no images in {shown(tree.root)}: {found}",
        hint="give the folder that holds .jpg, .png, .bmp, .gif, .webp or .tif files",
    )


def _split_folders(tree: Tree) -> tuple[list[str], list[str], list[str]] | None:
    """Train, validation and remaining top folders; None when the top folders are classes."""
    images = _tops(tree.images)
    tops = sorted(images | _tops(tree.others))
    train = [t for t in tops if t.lower() in _TRAIN]
    val = [t for t in tops if t.lower() in _VAL]
    rest = [t for t in tops if t not in train and t not in val]
    foreign = [t for t in rest if t.lower() not in _REST and t in images]
    if not train and (foreign or not val):
        return None
    if foreign and not _is_nested(tree, train[0]):
        return None
    if foreign and not val:
        raise RefusedError(
            f"{shown(tree.root)} can be read in two ways: '{train[0]}' holds folders of images,"
            f" and beside it lie {listed(foreign)}",
            hint=f"give {shown(tree.root)}/{train[0]}, or move its images up if it is one class",
        )
    return train, val, rest


def _tops(entries: Iterable[Entry]) -> set[str]:
    """The first folders of all entries that lie in one."""
    return {e.path.partition("/")[0] for e in entries if "/" in e.path}


def _below(path: str, folder: str) -> bool:
    return not folder or path.startswith(folder + "/")


def _is_nested(tree: Tree, folder: str) -> bool:
    """True when the images of ``folder`` lie in folders of their own, none directly in it."""
    inside = [e.path for e in tree.images if _below(e.path, folder)]
    return bool(inside) and all("/" in path[len(folder) + 1 :] for path in inside)


def _only(folders: list[str]) -> str:
    if len(folders) > 1:
        raise RefusedError(
            f"{listed(folders)} lie beside each other: it is not clear which one is meant",
            hint="keep one of them, or rename the others with a leading dot",
        )
    return folders[0]


def class_part(tree: Tree, folder: str) -> Part:
    """The class folders directly below ``folder`` ("" is the root) with all that lies in them.

    Raises:
        RefusedError: there are images but no class folder, or a class name that is not UTF-8.
    """
    prefix = nfc(folder) + "/" if folder else ""
    spelled = _spellings(tree, folder)
    images = [e for e in tree.images if e.key.startswith(prefix)]
    items = tuple(Labelled(e, label) for e in images if (label := _class_of(e, prefix)))
    loose = len(images) - len(items)
    if not items:
        _refuse_flat(tree, folder, loose)
    others: dict[str, Counter[str]] = {name: Counter() for name in spelled}
    for entry in tree.others:
        if entry.key.startswith(prefix) and (label := _class_of(entry, prefix)):
            others[label][entry.kind] += 1
    return Part(
        names=tuple(sorted(spelled)),
        items=items,
        others={name: dict(count) for name, count in others.items()},
        notes=_part_notes(folder, spelled, loose),
    )


def _class_of(entry: Entry, prefix: str) -> str:
    """The first folder below ``prefix``; empty for a file that lies directly in it."""
    first, slash, _ = entry.key[len(prefix) :].partition("/")
    return first if slash else ""


def _spellings(tree: Tree, folder: str) -> dict[str, list[str]]:
    """Class names (NFC) and how each is spelled on disk."""
    spelled: dict[str, list[str]] = defaultdict(list)
    for entry in tree.folders:
        above, _, name = entry.path.rpartition("/")
        if above != folder:
            continue
        if not is_utf8(name):
            raise RefusedError(
                f"the class folder '{shown(entry.path)}' has a name that is not valid UTF-8",
                hint="rename it; for names from Windows: convmv -f cp949 -t utf-8 -r --notest DIR",
            )
        spelled[nfc(name)].append(name)
    return dict(spelled)


def _part_notes(folder: str, spelled: dict[str, list[str]], loose: int) -> tuple[str, ...]:
    twice = [name for name, forms in spelled.items() if len(forms) > 1]
    notes = []
    if twice:
        kinds = plural(len(twice), "class folder exists", "class folders exist")
        notes.append(f"{kinds} in two Unicode forms and count as one class: {listed(twice)}")
    if loose:
        beside = f"in '{shown(folder)}' " if folder else ""
        verb = plural(loose, "image lies", "images lie")
        notes.append(f"{verb} {beside}beside the class folders, taking no part")
    return tuple(notes)


def _refuse_flat(tree: Tree, folder: str, loose: int) -> None:
    where = shown(f"{tree.root}/{folder}" if folder else tree.root)
    if not loose:
        inside = Counter(e.kind for e in tree.others if _below(e.path, folder))
        raise RefusedError(
            f"no images in {where}: {counted(dict(inside)) or 'it is empty'}",
            hint="put .jpg or .png files into its class folders, or remove the folder",
        )
    hint = "sort them into one folder per class"
    if table := _label_table(tree):
        hint = f"if '{shown(table)}' holds the labels: --set data.labels={shown(table)}; or {hint}"
    elif not folder:
        parent = shown(str(PurePosixPath(tree.root).parent))
        hint = f"if this is one class of several, give {parent}; or {hint}"
    verb = plural(loose, "image lies", "images lie")
    raise RefusedError(f"{verb} directly in {where}, without class folders", hint=hint)


def _label_table(tree: Tree) -> str:
    """The table that most likely holds labels; empty when there is none."""
    tables = [e.path for e in tree.others if e.kind in {"csv", "tsv"}]
    likely = [t for t in tables if "train" in t.lower() or "label" in t.lower()]
    other = [t for t in tables if "submission" not in t.lower() and "test" not in t.lower()]
    return next(iter(likely + other), "")
