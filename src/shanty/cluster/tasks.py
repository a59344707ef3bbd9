"""Ask a node: run a task of shanty there and read its answer."""

from __future__ import annotations

import json
from typing import Any

from shanty.cluster.transport import Result, Transport
from shanty.errors import FailedError, from_dict
from shanty.spec.cluster import Node


def ask(
    transport: Transport, node: Node, task: str, request: dict[str, Any], limit: float
) -> dict[str, Any]:
    """The answer of ``python -m shanty.task TASK`` on the node, which gets ``request`` on stdin.

    Raises:
        ShantyError: the task's own error, with the node's name.
        FailedError: no answer within ``limit`` seconds, or the task crashed.
    """
    command = [node.python, "-m", "shanty.task", task]
    result = transport.run(command, stdin=json.dumps(request).encode(), limit=limit)
    last = _last_line(result)
    if "error" in last:
        raise from_dict(last["error"]).at(node.name)
    if result.code == 0 and "answer" in last:
        return last["answer"]
    raise _no_answer(task, result, limit).at(node.name)


def _last_line(result: Result) -> dict[str, Any]:
    """The last JSON object on stdout; earlier ones tell progress."""
    for line in reversed(result.stdout.decode("utf-8", "replace").splitlines()):
        try:
            data = json.loads(line)
        except ValueError:
            continue
        if isinstance(data, dict):
            return data
    return {}


def _no_answer(task: str, result: Result, limit: float) -> FailedError:
    lines = result.stderr.decode("utf-8", "replace").strip().splitlines()[-3:]
    said = "".join(f"\n    {line}" for line in lines)
    if result.code is None:
        what = f"the task {task} did not answer within {limit:g} s{said}"
        return FailedError(what, hint="look for a slow or full disk, or a busy machine")
    how = f"signal {-result.code}" if result.code < 0 else f"exit code {result.code}"
    return FailedError(
        f"the task {task} ended with {how}{said}",
        hint="check that this node's Python has shanty and what it needs",
    )
