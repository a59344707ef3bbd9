"""What a template asks for: a label or one probability per class, and in which columns."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from shanty.errors import RefusedError
from shanty.predict.layout import Kind
from shanty.predict.names import file_name, folded, index_by_name, resembling, some
from shanty.scan.names import listed, shown
from shanty.scan.tables import Table

_ID_NAMES = frozenset(
    {"id", "ids", "image_id", "img_id", "image", "img", "image_path", "img_path", "path", "file"}
    | {"filename", "file_name", "image_name", "name", "index", "key", "uid", "uuid"}
)
_INTEGER = re.compile(r"-?[0-9]+")


@dataclass(frozen=True, kw_only=True)
class Question:
    """The columns of a template, understood.

    ``id_index`` is the id column's place in the header; the pairs are those of ``Layout``.
    """

    kind: Kind
    id_index: int
    class_of_column: tuple[tuple[str, str], ...] = ()
    text_of_class: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()


def understand(template: Table, classes: Sequence[str]) -> Question:
    """Find out what is asked, from the header and the sample answers.

    A column for every class and one more column: probabilities. Two columns, the second no
    class: a label. Columns are matched to classes by name, in any order.

    Raises:
        RefusedError: two columns or two classes with one name, columns that are neither the id
            nor a class, classes without a column, no column for an answer.
    """
    class_at = index_by_name(classes, "the classes of the training")
    column_at = index_by_name(template.header, file_name(template))
    others = [i for i, c in enumerate(template.header) if folded(c) not in class_at]
    if len(template.header) == 2:
        id_index = _id_of_two(template)
        if folded(template.header[1 - id_index]) not in class_at:
            return _label(template, id_index, classes)
    elif len(others) == 1 and len(template.header) == len(classes) + 1:
        pairs = [
            (c, classes[class_at[folded(c)]]) for c in template.header if folded(c) in class_at
        ]
        return Question(kind="probability", id_index=others[0], class_of_column=tuple(pairs))
    absent = [c for c in classes if folded(c) not in column_at]
    raise _disagreement(template, [template.header[i] for i in others], absent)


def _id_of_two(template: Table) -> int:
    """Which of two columns holds the ids: the one called so, else the first without repeats."""
    called = [i for i, c in enumerate(template.header) if folded(c).casefold() in _ID_NAMES]
    if len(called) == 1:
        return called[0]
    values = [[row[i] for row in template.rows] for i in (0, 1)]
    unique = [i for i in (0, 1) if len(set(values[i])) == len(values[i])]
    return unique[0] if unique else 0


def _disagreement(template: Table, others: Sequence[str], absent: Sequence[str]) -> RefusedError:
    name = file_name(template)
    if len(template.header) < 2:
        return RefusedError(
            f"{name} has one column ({some(template.header)}), so there is no place for an answer",
            hint="a template needs an id column and a label column, or one column per class",
        )
    if not others:
        return RefusedError(
            f"{name} has no id column: every column is a class",
            hint="add the column with the ids of the test images",
        )
    called = [c for c in others if folded(c).casefold() in _ID_NAMES]
    unknown = [c for c in others if c != (called or others)[0]]
    parts = [("columns that are no class", unknown), ("classes without a column", absent)]
    told = "; ".join(f"{what}: {some(names)}" for what, names in parts if names)
    return RefusedError(
        f"{name} does not fit the training: {told}", hint=_near_misses(unknown, absent)
    )


def _near_misses(unknown: Sequence[str], absent: Sequence[str]) -> str:
    pairs = [(c, resembling(c, absent)) for c in unknown]
    close = [f"column {listed([c])} looks like class {listed([near])}" for c, near in pairs if near]
    advice = "use the template of these classes, or runs trained on the template's classes"
    return "; ".join([*close[:3], advice])


def _label(template: Table, id_index: int, classes: Sequence[str]) -> Question:
    samples = {folded(row[1 - id_index]) for row in template.rows} - {""}
    texts = _texts(samples, classes)
    _check_encoding(template, texts)
    notes = []
    if samples and not samples & {folded(text) for text in texts}:
        notes.append(
            f"none of the sample answers in {file_name(template)} is a class: "
            f"{some(sorted(samples))}; class names are written, such as '{shown(texts[0])}'"
        )
    pairs = tuple(zip(classes, texts, strict=True))
    return Question(kind="label", id_index=id_index, text_of_class=pairs, notes=tuple(notes))


def _texts(samples: set[str], classes: Sequence[str]) -> list[str]:
    """What is written for each class: its name as the training spelled it.

    One exception: folders 00, 01, 02 and sample answers 0, 1, 2 are the same whole numbers in two
    spellings; then the template's plain spelling is written.
    """
    names = [folded(name) for name in classes]
    whole = all(_INTEGER.fullmatch(word) for word in [*samples, *names])
    if not samples or samples <= set(names) or not whole:
        return list(classes)
    numbers = [str(int(name)) for name in names]
    plain = all(str(int(word)) == word for word in samples)
    return numbers if plain and len(set(numbers)) == len(numbers) else list(classes)


def _check_encoding(template: Table, texts: Sequence[str]) -> None:
    """Refuse before predicting what could not be written after it."""
    for text in texts:
        try:
            text.encode(template.encoding, "surrogateescape")
        except UnicodeEncodeError:
            raise RefusedError(
                f"class {shown(text)} cannot be written in {template.encoding}, the encoding of "
                f"{file_name(template)}",
                hint="save the template as UTF-8",
            ) from None
