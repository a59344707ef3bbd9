"""Task ``scan_images``: list the images to predict."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from shanty.record.atomic import write_json
from shanty.scan.training import scan_images
from shanty.spec.codec import to_dict


def run(request: dict[str, Any]) -> dict[str, Any]:
    """List every image below ``root``, as an ImageList; with ``out``, write it there as JSON too.

    Request: root, out ("").
    """
    found = to_dict(scan_images(Path(request["root"])))
    if request.get("out"):
        write_json(Path(request["out"]), found)
    return found | {"count": len(found["paths"])}
