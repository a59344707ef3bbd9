"""Several runs, one prediction: their classes are lined up by name, then averaged."""

from __future__ import annotations

from collections.abc import Sequence

from shanty.errors import RefusedError
from shanty.predict.names import folded, index_by_name, some


def align(classes_a: Sequence[str], classes_b: Sequence[str]) -> tuple[int, ...]:
    """Where each class of run A stands in run B: ``row_b[align(a, b)[i]]`` belongs to ``a[i]``.

    Runs may have been trained with the same classes in another order; names are compared after
    Unicode normalisation (NFC) and without surrounding spaces, never by position.

    Raises:
        RefusedError: the two runs do not know the same classes; the differing names are given.
    """
    at_a = index_by_name(classes_a, "run 1")
    at_b = index_by_name(classes_b, "the other run")
    only_a = [name for name in classes_a if folded(name) not in at_b]
    only_b = [name for name in classes_b if folded(name) not in at_a]
    if only_a or only_b:
        parts = [("only in the first", only_a), ("only in the other", only_b)]
        told = "; ".join(f"{where}: {some(names)}" for where, names in parts if names)
        raise RefusedError(
            f"the runs do not know the same classes: {told}",
            hint="average only runs that were trained on the same classes",
        )
    return tuple(at_b[folded(name)] for name in classes_a)


def average(rows: Sequence[Sequence[float]]) -> tuple[float, ...]:
    """The mean of one image's probabilities, one row per run, classes already in one order.

    Plain float64 additions in the order of the runs, one division at the end. ``sum`` is not
    used: from Python 3.12 on it compensates, and the same runs would give other last bits.

    Raises:
        ValueError: no rows, or rows of different lengths.
    """
    if not rows:
        raise ValueError("no rows to average")
    total = [float(p) for p in rows[0]]
    for row in rows[1:]:
        for index, p in enumerate(_checked(row, len(total))):
            total[index] += float(p)
    return tuple(value / len(rows) for value in total)


def _checked(row: Sequence[float], length: int) -> Sequence[float]:
    if len(row) != length:
        raise ValueError(f"a row of {len(row)} probabilities among rows of {length}")
    return row
