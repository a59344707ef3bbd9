"""Small folders of images for the scan tests. A scan reads first bytes only, so these do."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Iterable
from pathlib import Path

from shanty.scan.dataset import DataSet
from shanty.scan.names import as_path, text
from shanty.scan.training import scan_training

JPEG = b"\xff\xd8\xff\xe0\x00\x10JFIF\x00"
NFC = "\uace0\uc591\uc774"  # cat, composed
NFD = unicodedata.normalize("NFD", NFC)  # seven code points


def plant(root: Path, paths: Iterable[str], content: bytes = JPEG) -> Path:
    """Write files below ``root``; a path that ends with / becomes an empty folder."""
    for path in paths:
        target = as_path(f"{text(os.fsencode(root))}/{path}")
        if path.endswith("/"):
            target.mkdir(parents=True, exist_ok=True)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
    return root


def scan(root: Path, **options: object) -> DataSet:
    """scan_training with the defaults of a run."""
    given = {"val_fraction": 0.1, "seed": 0, "empty_class": "refuse"} | options
    return scan_training(root, **given)  # type: ignore[arg-type]


def numbered(name: str, count: int, kind: str = "jpg") -> list[str]:
    """``name/0.jpg``, ``name/1.jpg`` and so on."""
    return [f"{name}/{i}.{kind}" for i in range(count)]


def by_name(data: DataSet) -> dict[str, str]:
    """Path to class name, of both parts."""
    return {s.path: data.classes[s.label] for s in (*data.train, *data.val)}
