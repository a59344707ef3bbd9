"""Task ``scan``: read a training set."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from shanty.record.atomic import write_json
from shanty.scan.dataset import DataSet
from shanty.scan.training import scan_training
from shanty.spec.codec import to_dict


def run(request: dict[str, Any]) -> dict[str, Any]:
    """Read the set at ``root``; with ``out``, write it there as JSON for the workers.

    Request: root, labels (""), val_fraction, seed, empty_class, out ("").
    """
    found = scan_training(
        Path(request["root"]),
        labels=request.get("labels", ""),
        val_fraction=request["val_fraction"],
        seed=request["seed"],
        empty_class=request["empty_class"],
    )
    return saved(found, request.get("out", ""))


def saved(found: DataSet, out: str) -> dict[str, Any]:
    """Write the set to ``out`` if that is given, and answer with its numbers."""
    if out:
        write_json(Path(out), to_dict(found))
    return {
        "root": found.root,
        "classes": list(found.classes),
        "train": len(found.train),
        "val": len(found.val),
        "train_per_class": _per_class(found, [s.label for s in found.train]),
        "val_per_class": _per_class(found, [s.label for s in found.val]),
        "layout": found.layout,
        "used": found.used,
        "ignored": found.ignored,
        "notes": list(found.notes),
        "digest": found.digest,
        "bad": [list(b) for b in found.bad],
    }


def _per_class(found: DataSet, labels: list[int]) -> list[int]:
    counts = Counter(labels)
    return [counts[index] for index in range(len(found.classes))]
