"""Task ``scan_labelled``: read a labelled set to be measured with a finished run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from shanty.scan.training import scan_labelled
from shanty.task.scan import saved


def run(request: dict[str, Any]) -> dict[str, Any]:
    """Read the set at ``root``; its images are the validation part, its classes the run's.

    Request: root, classes, labels (""), out ("").
    """
    found = scan_labelled(
        Path(request["root"]), tuple(request["classes"]), labels=request.get("labels", "")
    )
    return saved(found, request.get("out", ""))
