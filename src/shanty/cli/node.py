"""Asking this machine, as a node, what the operator's side itself cannot know."""

from __future__ import annotations

from typing import Any

from shanty.cluster.here import local_node
from shanty.cluster.tasks import ask
from shanty.cluster.transport import LocalTransport
from shanty.errors import RefusedError

LIMIT = 900.0  # seconds; a scan of a large folder on a slow disk takes minutes


def ask_local(task: str, request: dict[str, Any], limit: float = LIMIT) -> dict[str, Any]:
    """Run a node task on this machine and give back its answer.

    Raises:
        ShantyError: what the task found wrong.
    """
    return ask(LocalTransport(), local_node(), task, request, limit)


def gpus_for(model: str = "") -> int:
    """GPUs of this machine, once it is clear that it can train at all, and ``model`` by name.

    Raises:
        RefusedError: torch is missing, or timm has no such model (the nearest names are told).
    """
    answer = ask_local("preflight", {"model": model, "full": False}, limit=120.0)
    asked = answer.get("model") or {"known": True}
    if not asked["known"]:
        close = " or ".join(repr(name) for name in asked["nearest"])
        raise RefusedError(
            f"timm has no model named {model!r}",
            hint=f"did you mean {close}?" if close else "see the names: timm.list_models()",
        )
    return len(answer["cuda"])
