"""Which classes there are, and what to do when a class is empty, new or alone. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from shanty.errors import RefusedError
from shanty.scan.layout import Labelled, Part
from shanty.scan.names import counted, listed, shown
from shanty.spec.codec import nearest
from shanty.units import plural


def training_classes(
    part: Part, usable: Iterable[Labelled], empty_class: str
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Class names sorted by code point, and notes on classes that were left out.

    Raises:
        RefusedError: a class without a usable image (unless ``empty_class`` is "drop"), or fewer
            than two classes.
    """
    filled = {item.label for item in usable}
    empty = [name for name in part.names if name not in filled]
    if not filled:
        raise RefusedError(
            f"none of {plural(len(part.items), 'file')} named like an image is one",
            hint="look at the first of them: " + listed([i.entry.path for i in part.items], 1),
        )
    if empty and empty_class != "drop":
        raise RefusedError(_about_empty(part, empty), hint=_EMPTY_HINT)
    names = tuple(name for name in part.names if name in filled)
    if len(names) < 2:
        _refuse_single(part, names[0])
    notes = (_about_empty(part, empty) + "; left out",) if empty else ()
    return names, notes


_EMPTY_HINT = (
    "add images, remove the folder, or leave the class out with --set data.empty_class=drop"
)


def _about_empty(part: Part, empty: list[str]) -> str:
    """One sentence: which classes are empty, and what lies in the first of them."""
    tries = Counter(item.label for item in part.items)
    name = empty[0]
    inside = [counted(part.others.get(name, {}))] if part.others.get(name) else []
    if tries[name]:
        inside.append(plural(tries[name], "file that is no image", "files that are no images"))
    what = f" (in '{shown(name)}': {', '.join(inside)})" if inside else ""
    verb = "class has" if len(empty) == 1 else "classes have"
    return f"{len(empty):,} {verb} no usable image: {listed(empty)}{what}"


def _refuse_single(part: Part, name: str) -> None:
    items = [i for i in part.items if i.label == name]
    parts = [i.entry.path.split("/") for i in items]
    inner = {tuple(p[:-1]) for p in parts}
    hint = "add a folder of images of another class"
    deep = sorted({"/".join(p[:2]) for p in parts if len(p) > 2})
    if len(inner) > 1 and len(deep) > 1:
        hint = f"if its {len(deep)} sub-folders are the classes, give the folder '{shown(name)}'"
    raise RefusedError(
        f"there is only one class, '{shown(name)}' ({plural(len(items), 'image')}):"
        " nothing to tell apart",
        hint=hint,
    )


def check_known(classes: tuple[str, ...], part: Part, where: str) -> tuple[str, ...]:
    """Notes on the classes that ``part`` lacks.

    Raises:
        RefusedError: ``part`` has images of a class that is not in ``classes``.
    """
    counts = Counter(item.label for item in part.items)
    for name in sorted(counts):
        if name not in classes:
            raise RefusedError(
                f"{where} has {plural(counts[name], 'image')} of the class '{shown(name)}',"
                " which is not among the classes of the training",
                hint=f"remove or rename it; {nearest(name, list(classes))}",
            )
    lacking = [name for name in classes if not counts[name]]
    if not lacking:
        return ()
    verb = "class has" if len(lacking) == 1 else "classes have"
    return (f"{len(lacking):,} {verb} no image in {where}: {listed(lacking)}",)
