"""Ask a node what images there are, say it in a few lines, and refuse what cannot be trained."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from shanty import units
from shanty.cli.node import ask_local
from shanty.errors import RefusedError, UsageError
from shanty.record.atomic import read_json
from shanty.record.rundir import RunDir
from shanty.scan.dataset import DataSet
from shanty.scan.names import listed
from shanty.spec.codec import from_dict
from shanty.spec.config import RunConfig

FEW = 5


@dataclass(frozen=True, kw_only=True)
class Found:
    """A scan in numbers: ``train`` and ``val`` count images; the rest is as in scan.DataSet."""

    root: str
    classes: tuple[str, ...]
    train: int
    val: int
    layout: str
    used: dict[str, int]
    ignored: dict[str, int]
    notes: tuple[str, ...]
    digest: str
    bad: tuple[tuple[str, str], ...] = ()


def scan(root: str, config: RunConfig, out: Path | None = None) -> Found:
    """Labelled images below ``root``, split as the config says; written to ``out`` on the node.

    Raises:
        UsageError: no such folder.
        RefusedError: no images, an empty class and the like.
    """
    request = {
        "root": str(Path(root).expanduser().resolve()),
        "labels": config.data.labels,
        "val_fraction": config.data.val_fraction,
        "seed": config.seed,
        "empty_class": config.data.empty_class,
        "out": str(out or ""),
    }
    return found(ask_local("scan", request))


def found(answer: dict[str, Any]) -> Found:
    """The numbers in a scan task's answer."""
    return from_dict(Found, {f.name: answer[f.name] for f in fields(Found)})


def saved(rundir: RunDir) -> DataSet:
    """The images that a run was started with.

    Raises:
        UsageError: the run's data.json is missing or damaged.
    """
    try:
        return from_dict(DataSet, read_json(rundir.data))
    except (OSError, ValueError, TypeError) as error:
        raise UsageError(
            f"{rundir.data} cannot be read: {error}", hint="give the folder of a whole run"
        ) from error


def described(data: Found) -> list[str]:
    """A few calm lines: where, classes, counts, what was passed over, notes."""
    counts = f"{units.plural(data.train, 'training image')}, {units.count(data.val)}"
    names = listed(list(data.classes), FEW)
    lines = [
        f"images: {data.root} ({data.layout})",
        f"  {units.plural(len(data.classes), 'class', 'classes')}: {names}",
        f"  {counts} for validation",
    ]
    return lines + _remarks(data)


def _remarks(data: Found) -> list[str]:
    lines = [f"  note: {note}" for note in data.notes]
    lines += [f"  bad: {path}: {reason}" for path, reason in data.bad[:FEW]]
    if len(data.bad) > FEW:
        lines.append(f"  … and {len(data.bad) - FEW} more bad files")
    return lines


def measured(data: Found) -> list[str]:
    """The lines for images that are only measured: all of them are in ``val``."""
    lines = [f"images: {data.root}, {units.count(data.val)} ({data.layout})"]
    return lines + _remarks(data)


def check_trainable(data: Found, config: RunConfig, ranks: int) -> None:
    """Refuse what would fail or mislead, as far as it needs no torch.

    Raises:
        RefusedError: bad files that the config does not accept, one class, too many ranks.
    """
    if data.bad and config.data.bad == "refuse":
        path, reason = data.bad[0]
        raise RefusedError(
            f"{units.plural(len(data.bad), 'bad image')}, the first is {path}: {reason}",
            hint="mend or delete the files, or accept it: --set data.bad=skip",
        )
    if len(data.classes) < 2:
        raise RefusedError(
            f"{data.root} holds one class ({', '.join(data.classes)}): nothing to tell apart",
            hint="give a folder with at least two class folders",
        )
    _check_ranks(data.train, config.batch, ranks)


def _check_ranks(images: int, batch: int, ranks: int) -> None:
    if ranks > images:
        raise RefusedError(
            f"{ranks} ranks but only {units.plural(images, 'training image')}",
            hint=f"use --nproc {max(1, images // 2)} or fewer",
        )
    if ranks > max(1, batch // 2):  # a share has two images or none
        raise RefusedError(
            f"{ranks} ranks share a global batch of {batch}: some would never get an image",
            hint=f"use --batch {ranks * 8} or --nproc {max(1, batch // 2)}",
        )


def difference(old: DataSet, root: str, config: RunConfig) -> str:
    """How the images at ``root`` differ from an earlier scan: missing, new, moved; by name."""
    with tempfile.TemporaryDirectory(prefix="shanty-") as folder:
        out = Path(folder) / "data.json"
        scan(root, config, out)
        new = from_dict(DataSet, read_json(out))
    before, after = _places(old), _places(new)
    missing = sorted(before.keys() - after.keys())
    extra = sorted(after.keys() - before.keys())
    moved = sorted(p for p in before.keys() & after.keys() if before[p] != after[p])
    named = (("missing", missing), ("new", extra), ("of another class or part", moved))
    parts = [f"{len(p)} {word} ({listed(p, 3)})" for word, p in named if p]
    return "; ".join(parts) or "files of another size"


def _places(data: DataSet) -> dict[str, tuple[str, str]]:
    parts = (("train", data.train), ("val", data.val))
    return {s.path: (part, data.classes[s.label]) for part, samples in parts for s in samples}
