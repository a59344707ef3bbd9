"""Ask all nodes at once what they are. One that does not answer hides no other."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TypeVar

from shanty.cluster.facts import Clock, NodeFacts, parse
from shanty.cluster.probe.text import probe_text, torch_text
from shanty.cluster.torchfacts import TorchFacts, parse_torch
from shanty.cluster.transport import Result, Transport
from shanty.errors import FailedError, ShantyError
from shanty.spec.cluster import Node

T = TypeVar("T")
PROBE_LIMIT = 10.0  # the probe itself needs less than 2 s; a slow board starts Python slowly
TORCH_LIMIT = 300.0  # the torch probe ends itself earlier


def gather(nodes: Iterable[Node], run_probe: Callable[[Node], T]) -> dict[str, T | ShantyError]:
    """``run_probe`` on every node at once; for each its answer, or its error with its name.

    In the order of ``nodes``. Only expected failures are kept: anything else is our own bug.
    """
    asked = list(nodes)

    def one(node: Node) -> T | ShantyError:
        try:
            return run_probe(node)
        except ShantyError as error:
            return error.at(node.name)

    with ThreadPoolExecutor(max_workers=max(1, len(asked))) as pool:
        return dict(zip((n.name for n in asked), pool.map(one, asked), strict=True))


def ask_facts(transport: Transport, node: Node, limit: float = PROBE_LIMIT) -> NodeFacts:
    """The node's facts, with its clock's offset from ours.

    Raises:
        FailedError: no answer, or one without facts.
    """
    sent = time.time()
    command = [node.python, "-", "--workdir", node.workdir]
    result = transport.run(command, stdin=probe_text(), limit=limit)
    received = time.time()
    _check(result, node, limit)
    facts = parse(result.stdout)
    return replace(facts, clock=_offset(facts.clock, sent, received))


def ask_torch(transport: Transport, node: Node, limit: float = TORCH_LIMIT) -> TorchFacts:
    """What the node's torch is and can. Seconds: torch is imported and tried there.

    Raises:
        FailedError: no answer, or one without facts.
    """
    result = transport.run([node.python, "-"], stdin=torch_text(), limit=limit)
    _check(result, node, limit)
    return parse_torch(result.stdout)


def torch_key(facts: NodeFacts) -> tuple[str, ...]:
    """Equal as long as what ``ask_torch`` found cannot have changed: keep the answer by it."""
    python, host, gpus = facts.python, facts.host, facts.gpus or ()
    parts = [python and (python.executable, python.version, python.packages, python.torch_changed)]
    parts += [host and (host.kernel, host.machine), facts.jetson and facts.jetson.l4t]
    return tuple(str(part) for part in (*parts, *((g.uuid or g.name, g.driver) for g in gpus)))


def _check(result: Result, node: Node, limit: float) -> None:
    if result.code == 0:
        return
    lines = result.stderr.decode("utf-8", "replace").strip().splitlines()[-3:]
    said = "".join(f"\n    {line}" for line in lines)
    if result.code is None:
        what = f"the probe did not answer within {limit:g} s{said}"
        raise FailedError(what, hint="look for a busy machine or a dead disk", node=node.name)
    if result.code in (126, 127):
        what, hint = f"{node.python} does not start there", "set the node's python"
        raise FailedError(f"{what}{said}", hint=f"{hint} to one that exists", node=node.name)
    what = f"the probe ended with exit code {result.code}{said}"
    raise FailedError(what, hint="set the node's python to 3.8 or newer", node=node.name)


def _offset(clock: Clock | None, sent: float, received: float) -> Clock | None:
    """Node minus operator lies between what each half of the way can explain."""
    if clock is None or clock.begun is None or clock.ended is None:
        return clock
    most, least = clock.begun - sent, clock.ended - received
    return replace(clock, offset=(most + least) / 2, within=abs(most - least) / 2)
