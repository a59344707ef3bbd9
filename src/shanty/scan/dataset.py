"""The values a scan answers with: plain data, the same on every node that holds the same files."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from shanty.scan.names import extension


@dataclass(frozen=True, kw_only=True)
class Sample:
    """One image: POSIX ``path`` relative to the root, exactly as on disk, and its class index.

    The text of a path is its bytes in UTF-8 with surrogateescape; ``names.on_disk`` opens it.
    """

    path: str
    label: int


@dataclass(frozen=True, kw_only=True)
class DataSet:
    """Labelled images.

    Attributes:
        root: absolute folder that every path is relative to.
        classes: names in NFC, sorted by code point; a label is an index into them.
        train: samples sorted by the NFC form of their path.
        val: the same for validation; empty when nothing is held out.
        layout: ``class folders``, ``train and val folders``, ``train folder`` or ``table``.
        used: samples per extension, training and validation together.
        ignored: files below the root that have no used extension, per extension.
        notes: sentences for the person.
        digest: SHA-256 over path, size, class and part of every sample.
        bad: (path, reason) of files that are named like an image but are none; in no sample.
    """

    root: str
    classes: tuple[str, ...]
    train: tuple[Sample, ...]
    val: tuple[Sample, ...]
    layout: str
    used: dict[str, int]
    ignored: dict[str, int]
    notes: tuple[str, ...]
    digest: str
    bad: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, kw_only=True)
class ImageList:
    """Images without labels, for prediction, sorted by the NFC form of their path.

    ``bad`` files stay in ``paths``: each needs its row in the answer.
    """

    root: str
    paths: tuple[str, ...]
    used: dict[str, int]
    ignored: dict[str, int]
    notes: tuple[str, ...]
    bad: tuple[tuple[str, str], ...] = ()


def digest_of(lines: Iterable[tuple[str, int, str, str]]) -> str:
    """SHA-256 (hex) over the sorted (NFC path, bytes, class name, part) of every sample."""
    total = hashlib.sha256()
    for path, size, name, part in sorted(lines):
        # A zero byte cannot stand in a path, so no two different lists give the same bytes.
        line = f"{path}\0{size}\0{name}\0{part}\n"
        total.update(line.encode("utf-8", "surrogateescape"))
    return total.hexdigest()


def per_extension(paths: Iterable[str]) -> dict[str, int]:
    """Files per lower-case extension, most frequent first; "" for files without one."""
    counts = Counter(extension(path) for path in paths)
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
