"""Task ``predict_prepare``: everything a prediction could be refused for, before it starts.

Needs no torch: it reads the runs' small JSON files, the template and the folder of images.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from shanty.errors import RefusedError
from shanty.predict.averaging import align
from shanty.predict.submission import check_target, plan_submission
from shanty.record.atomic import read_json, write_json
from shanty.scan.dataset import ImageList
from shanty.scan.training import scan_images
from shanty.spec.codec import to_dict


def run(request: dict[str, Any]) -> dict[str, Any]:
    """Check and plan.

    Request: ``runs`` (folders), ``which``, ``images`` (a folder, a file or a table of images),
    ``template`` (path or ""), ``out``, ``force``, ``layout`` (where the plan is written).
    Answer: ``root``, ``rows``, ``kind``, ``notes``, ``bad``, ``classes``.
    """
    check_target(Path(request["out"]), force=request["force"])
    classes = [classes_of(Path(folder), request["which"]) for folder in request["runs"]]
    for other in classes[1:]:
        align(classes[0], other)
    images, table = listed_images(Path(request["images"]))
    template = Path(request["template"]) if request["template"] else None
    layout = plan_submission(images, classes[0], template, table)
    write_json(Path(request["layout"]), to_dict(layout))
    return {
        "root": images.root,
        "rows": len(layout.paths),
        "kind": layout.kind,
        "notes": [*images.notes, *layout.notes],
        "bad": [list(pair) for pair in images.bad],
        "classes": len(classes[0]),
    }


def listed_images(source: Path) -> tuple[ImageList, Path | None]:
    """The images of a folder; for a table (.csv, .tsv), those below its folder, and the table."""
    if source.suffix.lower() in (".csv", ".tsv", ".txt") and source.is_file():
        return scan_images(source.parent), source
    return scan_images(source), None


def classes_of(folder: Path, which: str) -> tuple[str, ...]:
    """Class names of a run's checkpoint.

    Raises:
        RefusedError: no such checkpoint.
    """
    try:
        pointer = read_json(folder / f"{which}.json")
        state = read_json(folder / str(pointer["checkpoint"]) / "state.json")
        return tuple(state["classes"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RefusedError(
            f"{folder} has no {which!r} checkpoint ({error})",
            hint="name a folder that shanty train made, and train it to its first validation",
        ) from error
