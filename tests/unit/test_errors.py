"""Errors: readable in five lines, with an exit code each, and whole after crossing a process."""

from __future__ import annotations

import json

import pytest

from shanty.errors import (
    FailedError,
    InterruptedRun,
    RefusedError,
    ShantyError,
    UsageError,
    from_dict,
)

KINDS = {UsageError: 2, RefusedError: 3, FailedError: 4, InterruptedRun: 130}


@pytest.mark.parametrize(("kind", "code"), KINDS.items())
def test_an_error_crosses_a_process_boundary_whole(kind: type[ShantyError], code: int) -> None:
    sent = kind("너무 작음 \udcff", hint="do this", node="n2", rank=0)
    got = from_dict(json.loads(json.dumps(sent.to_dict())))
    assert type(got) is kind
    assert got.exit_code == sent.to_dict()["exit_code"] == code
    assert vars(got) == vars(sent)
    assert str(got) == str(sent)


@pytest.mark.parametrize(
    ("place", "start"),
    [
        ({}, "disk full"),
        ({"node": "n2"}, "n2: disk full"),
        ({"node": "n2", "rank": 0}, "n2 rank 0: disk full"),
        ({"rank": 3}, "node rank 3: disk full"),
    ],
)
def test_the_node_comes_first_and_the_fix_last(place: dict[str, object], start: str) -> None:
    assert str(FailedError("disk full", **place)) == start  # type: ignore[arg-type] # node, rank
    with_fix = FailedError("disk full", hint="free 2 GiB", **place)  # type: ignore[arg-type]
    assert str(with_fix) == f"{start}\n  fix: free 2 GiB"


def test_at_fills_in_the_place_and_never_overwrites_it() -> None:
    error = RefusedError("no")
    assert error.at("n1", 2) is error
    assert (error.node, error.rank) == ("n1", 2)
    error.at("n9", 9)
    assert (error.node, error.rank) == ("n1", 2)
    of_rank_zero = RefusedError("no", rank=0).at("n3", 5)
    assert (of_rank_zero.node, of_rank_zero.rank) == ("n3", 0)


@pytest.mark.parametrize(
    "data",
    [{}, {"error": "KeyError", "what": "x"}, {"error": None}, {"rank": "2", "what": ["x"]}],
)
def test_an_unknown_failure_is_still_a_failure(data: dict[str, object]) -> None:
    error = from_dict(data)
    assert type(error) is FailedError
    assert error.exit_code == 4
    assert error.what
    assert error.rank is None


def test_one_handler_catches_them_all() -> None:
    for kind in KINDS:
        assert issubclass(kind, ShantyError)
