"""The preflight says what a node can train with, and knows every model name that timm knows."""

from __future__ import annotations

import sys
from typing import Any

import pytest
import timm
import torch

from shanty.cluster.here import local_node
from shanty.cluster.tasks import ask
from shanty.cluster.transport import LocalTransport
from shanty.errors import RefusedError
from shanty.task import preflight
from shanty.task.models import knows, model_names, nearest_models


def asked(request: dict[str, Any]) -> dict[str, Any]:
    return ask(LocalTransport(), local_node(), "preflight", request, 60)


def test_the_full_answer_asks_torch() -> None:
    answer = asked({"model": "resnet18"})
    assert answer["versions"]["timm"] == timm.__version__
    assert answer["versions"]["torch"] == torch.__version__.split("+", maxsplit=1)[0]
    assert answer["distributed"]["gloo"] is True
    assert len(answer["cuda"]) == torch.cuda.device_count()
    assert answer["model"] == {"name": "resnet18", "known": True, "nearest": []}


def test_the_quick_answer_agrees_and_does_not_import_torch() -> None:
    full, quick = asked({}), asked({"full": False})
    assert quick["distributed"] is None
    assert {**quick, "distributed": None} == {**full, "distributed": None}
    code = """
import sys
from shanty.task.preflight import run
run({"model": "vit_tiny_patch16_224", "full": False})
print("torch" in sys.modules)
"""
    result = LocalTransport().run([sys.executable, "-c", code], stdin=b"", limit=30)
    assert result.stdout == b"False\n"


def test_names_read_from_the_source_are_those_that_timm_registers() -> None:
    assert model_names() == sorted(timm.list_models())


def test_a_wrong_name_gets_the_nearest_ones() -> None:
    assert not knows("resnet81")
    assert "resnet18" in nearest_models("resnet81")
    assert "resnet50" in nearest_models("ResNet-50")
    assert asked({"model": "resnet81", "full": False})["model"]["known"] is False


def test_tags_and_old_names_are_known() -> None:
    assert knows("resnet18.a1_in1k")
    old = next(iter(timm.models.get_deprecated_models()))
    assert knows(old)


def test_what_is_not_installed_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    def all_but_timm(name: str) -> str | None:
        return None if name == "timm" else name

    monkeypatch.setattr(preflight, "find_spec", all_but_timm)
    with pytest.raises(RefusedError, match="no timm"):
        preflight.run({})
