"""The nodes of ``tests/facts``: planted as files, read by the real probe, parsed."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from shanty.cluster.facts import NodeFacts, parse
from shanty.cluster.probe.program import collect
from shanty.cluster.probe.tree import Tree
from shanty.cluster.torchfacts import TorchFacts, parse_torch

FOLDER = Path(__file__).parent / "facts"
NAMES = tuple(sorted(path.stem for path in FOLDER.glob("*.json")))


def on_file(name: str) -> dict[str, Any]:
    """A node's file: ``tree``, ``live`` and ``torch``."""
    return json.loads((FOLDER / f"{name}.json").read_text("utf-8"))


def plant(name: str, root: Path) -> Path:
    """Write the node's tree below ``root``."""
    for path, content in on_file(name)["tree"].items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content, "utf-8")
    return root


def answer_of(name: str) -> dict[str, Any]:
    """What the probe says of the planted tree, with the live facts of the file."""
    with tempfile.TemporaryDirectory() as folder:
        answer = collect(Tree(plant(name, Path(folder)), Path("/")), limit=60)
    for part, facts in on_file(name)["live"].items():
        known = answer.get(part)
        answer[part] = {**known, **facts} if isinstance(known, dict) else facts
    return {"probe": 1, **answer}


def facts_of(name: str) -> NodeFacts:
    """The node's facts."""
    return parse(json.dumps(answer_of(name)))


def torch_of(name: str) -> TorchFacts:
    """What its torch is and can."""
    return parse_torch(json.dumps(on_file(name)["torch"]))
