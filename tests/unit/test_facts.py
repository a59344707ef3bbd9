"""Facts read back from JSON: tolerant to what is absent, and one silent node hides no other."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import pytest

from nodes_on_file import NAMES, answer_of, facts_of
from shanty.cluster.facts import NodeFacts, parse
from shanty.cluster.gather import ask_facts, gather, torch_key
from shanty.cluster.transport import LocalTransport
from shanty.errors import FailedError, ShantyError
from shanty.spec.cluster import Node


def test_no_facts_are_unknown_and_not_zero() -> None:
    assert parse('{"probe": 1}') == NodeFacts()


@pytest.mark.parametrize("name", NAMES)
def test_any_part_may_be_absent_null_or_of_another_kind(name: str) -> None:
    answer = answer_of(name)
    whole = parse(json.dumps(answer))
    for part in set(answer) - {"probe", "unfinished"}:
        for odd in (None, 7, "x", [7], {"x": 7}):
            facts = parse(json.dumps({**answer, part: odd}))
            assert facts.unfinished == ()
            others = [key for key in vars(whole) if key != part]
            assert [getattr(facts, k) for k in others] == [getattr(whole, k) for k in others]


def test_a_value_of_another_kind_is_left_out_and_its_neighbours_stay() -> None:
    odd = {"total": "much", "available": 5, "free": True, "swaps": [3, {"name": "/s", "size": 1}]}
    memory = parse(json.dumps({"probe": 1, "memory": odd})).memory
    assert memory is not None
    assert (memory.total, memory.available, memory.free) == (None, 5, None)
    assert [(swap.name, swap.size) for swap in memory.swaps or ()] == [("/s", 1)]


def test_facts_of_a_newer_probe_are_read_as_far_as_they_are_known() -> None:
    facts = parse('{"probe": 2, "moon": {"phase": 3}, "resolves": ["10.0.0.1"]}')
    assert facts.resolves == ("10.0.0.1",)


def test_a_shells_greeting_does_no_harm() -> None:
    text = b'Welcome!\n{"greeting": 1}\n\xff\xfe\n{"probe": 1, "resolves": []}\n[1]\nbye\n'
    assert parse(text).resolves == ()


@pytest.mark.parametrize("text", ["", "no facts", "[]", '{"probe_torch": 1}', '{"probe": '])
def test_text_without_facts_is_an_error(text: str) -> None:
    with pytest.raises(FailedError, match="printed no facts"):
        parse(text)


def test_nodes_are_asked_at_once_and_an_error_keeps_its_place() -> None:
    nodes = [Node(name=name) for name in ("n1", "n2", "n3")]

    def slow(node: Node) -> str:
        time.sleep(0.3)
        if node.name == "n2":
            raise FailedError("no answer")
        return node.name.upper()

    begun = time.monotonic()
    found = gather(nodes, slow)
    assert time.monotonic() - begun < 0.8
    assert list(found) == ["n1", "n2", "n3"]
    assert (found["n1"], found["n3"]) == ("N1", "N3")
    error = found["n2"]
    assert isinstance(error, ShantyError)
    assert error.node == "n2"


def test_a_bug_of_ours_is_not_taken_for_a_silent_node() -> None:
    def broken(_node: Node) -> str:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        gather([Node()], broken)


def test_no_nodes_have_no_facts() -> None:
    assert gather([], lambda node: node) == {}


def test_this_machine_is_asked_and_its_clock_is_ours() -> None:
    facts = ask_facts(LocalTransport(), Node(python=sys.executable, workdir="/"))
    assert facts.disk is not None
    assert facts.disk.workdir == "/"
    clock = facts.clock
    assert clock is not None
    assert clock.offset is not None
    assert clock.within is not None
    assert abs(clock.offset) <= clock.within < 5


def script(folder: Path, line: str) -> Node:
    file = folder / "python"
    file.write_text(f"#!/bin/sh\n{line}\n", "utf-8")
    file.chmod(0o755)
    return Node(name="n7", python=str(file))


def test_a_clock_an_hour_behind_is_measured(tmp_path: Path) -> None:
    late = "import sys, time; now = time.time; time.time = lambda: now() - 3600; "
    line = f"exec {sys.executable} -c '{late} sys.argv = [\"-\"]; exec(sys.stdin.read())'"
    clock = ask_facts(LocalTransport(), script(tmp_path, line)).clock
    assert clock is not None
    assert clock.offset is not None
    assert clock.within is not None
    assert abs(clock.offset + 3600) <= clock.within < 5


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("exit 127", "does not start there"),
        ("echo python 3.7 is too old: 3.8 is the oldest >&2; exit 1", "3.7 is too old"),
        ("exec sleep 30", "did not answer within 0.5 s"),
        ("cat >/dev/null; echo hello", "printed no facts"),
    ],
)
def test_a_python_that_does_not_answer_is_named(tmp_path: Path, line: str, words: str) -> None:
    node = script(tmp_path, line)
    found = gather([node], lambda n: ask_facts(LocalTransport(), n, limit=0.5))["n7"]
    assert isinstance(found, FailedError)
    assert words in str(found)
    assert str(found).startswith("n7: ")
    assert "fix: " in str(found)


def test_the_torch_answer_is_kept_until_something_it_rests_on_changes() -> None:
    answer = answer_of("pc_gpu")
    key = torch_key(facts_of("pc_gpu"))
    assert torch_key(parse(json.dumps({**answer, "memory": None, "clock": {}}))) == key
    python = {**answer["python"], "torch_changed": 1.8e9}
    driver = [{**answer["gpus"][0], "driver": "580.1"}]
    kernel = {**answer["host"], "kernel": "6.9"}
    for part in ({"python": python}, {"gpus": driver}, {"host": kernel}):
        assert torch_key(parse(json.dumps({**answer, **part}))) != key
