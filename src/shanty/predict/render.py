"""A layout and its probabilities, as the bytes of a table."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from shanty.errors import FailedError
from shanty.predict.layout import Layout
from shanty.predict.names import folded, index_by_name
from shanty.scan import tables
from shanty.scan.names import shown

# A float32 softmax may end a little above one; a logit given by mistake is far outside.
_LARGEST = 1.001

Fill = Callable[[str, Sequence[float]], tuple[str, ...]]


def render(
    layout: Layout, probabilities: Sequence[Sequence[float]], classes: Sequence[str]
) -> bytes:
    """The whole submission.

    ``probabilities`` has one row per id, in the layout's order, and one value per class, in the
    order of ``classes``. Rows are renormalised in float64 and written with 9 significant digits:
    as written a row sums to 1 within 1e-8, and a probability above zero is never written as 0.

    Raises:
        FailedError: a value that is no probability (NaN, infinite, negative, above one).
        ValueError: the number of rows, or of values in a row, is not what the layout says.
    """
    if len(probabilities) != len(layout.ids):
        raise ValueError(f"{len(probabilities)} rows for {len(layout.ids)} ids")
    filler = _label_filler if layout.kind == "label" else _probability_filler
    fill = filler(layout, classes)
    pairs = zip(layout.ids, probabilities, strict=True)
    rows = tuple(fill(image, _checked(row, len(classes), image)) for image, row in pairs)
    return tables.render(
        tables.Table(
            path="submission",
            header=layout.columns,
            rows=rows,
            encoding=layout.encoding,
            newline=layout.newline,
            delimiter=layout.delimiter,
            final_newline=layout.final_newline,
        )
    )


def normalised(values: Sequence[float]) -> list[float]:
    """The same row with sum 1, in float64; what was above zero stays above zero."""
    total = math.fsum(values)
    return [p and max(p / total, math.ulp(0.0)) for p in values]


def fallback_row(prior: Sequence[float]) -> tuple[float, ...]:
    """What an image that cannot be read gets: how frequent each class was in the training.

    ``prior`` holds counts or fractions, one per class. As a label this is the most frequent
    class (of equals the first). Where nothing is known about an image, this has the smallest
    expected log loss.

    Raises:
        ValueError: no class, a negative or non-finite value, or all are zero.
    """
    values = [float(p) for p in prior]
    if not all(math.isfinite(p) and p >= 0 for p in values) or not any(values):
        raise ValueError(f"no class frequencies: {prior}")
    total = math.fsum(values)
    return tuple(p / total for p in values)


def _checked(row: Sequence[float], length: int, image: str) -> list[float]:
    """The row as float64, or FailedError when these are no probabilities."""
    values = [float(p) for p in row]
    if len(values) != length:
        raise ValueError(f"{image}: {len(values)} probabilities for {length} classes")
    wrong = [p for p in values if not 0 <= p <= _LARGEST]
    if not wrong and any(values):
        return values
    told = f"holds {wrong[0]}, which is no probability" if wrong else "is zero for every class"
    raise FailedError(
        f"the prediction of {shown(image)} {told}",
        hint="the model's weights are probably damaged: predict with another checkpoint",
    )


def _label_filler(layout: Layout, classes: Sequence[str]) -> Fill:
    text_of = {folded(name): text for name, text in layout.text_of_class}
    texts = [text_of.get(folded(name), name) for name in classes]
    id_first = layout.columns[0] == layout.id_column

    def fill(image: str, row: Sequence[float]) -> tuple[str, ...]:
        answer = texts[_largest(row)]
        return (image, answer) if id_first else (answer, image)

    return fill


def _probability_filler(layout: Layout, classes: Sequence[str]) -> Fill:
    at = index_by_name(classes, "the classes of the run")
    class_of = dict(layout.class_of_column)
    places = [None if c == layout.id_column else at[folded(class_of[c])] for c in layout.columns]

    def fill(image: str, row: Sequence[float]) -> tuple[str, ...]:
        told = [format(p, ".9g") for p in normalised(row)]
        return tuple(image if place is None else told[place] for place in places)

    return fill


def _largest(row: Sequence[float]) -> int:
    """Index of the largest value; of equals the first, as argmax does."""
    return max(range(len(row)), key=row.__getitem__)
