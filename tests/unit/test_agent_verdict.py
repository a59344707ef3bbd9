"""The pure parts of the agent: who failed first, and who gets which signal when."""

from __future__ import annotations

import signal
from dataclasses import replace
from typing import Any

import pytest

from shanty.agent.stopping import Limits, Stopping
from shanty.agent.verdict import Exit, describe, exit_code, first_cause

LIMITS = Limits(save=60, grace=5)


def an_exit(rank: int, code: int, t: float, **more: Any) -> Exit:
    return replace(Exit(rank=rank, code=code, t=t, asked=False, log="x.log"), **more)


def told(what: str, **more: Any) -> dict[str, Any]:
    return {"error": "FailedError", "what": what, "rank": None, "node": ""} | more


def test_a_signal_death_counts_before_the_peer_that_noticed_it_sooner_than_the_agent() -> None:
    killed = an_exit(1, -9, 10.1)
    peer = an_exit(0, 4, 10.2, own=told("Connection reset by peer"), own_t=10.05)
    assert first_cause([peer, killed]) == killed


def test_an_abort_that_follows_an_error_is_not_the_cause() -> None:
    error = an_exit(1, 4, 11.0, own=told("ValueError: boom"), own_t=10.0)
    abort = an_exit(0, -6, 10.5)
    assert first_cause([abort, error]) == error


def test_who_was_told_to_end_is_no_cause_unless_it_had_failed_itself() -> None:
    first = an_exit(0, 1, 10.0)
    late = an_exit(1, -15, 10.1, asked=True)
    assert first_cause([first, late]) == first
    slow = an_exit(1, 4, 10.1, asked=True, own=told("ValueError"), own_t=9.0)
    assert first_cause([first, slow]) == slow


def test_a_consequence_is_the_cause_when_there_is_nothing_else() -> None:
    lost = [
        an_exit(r, 4, 10.0 + r, own=told("lost", consequence=True), own_t=9.0 + r) for r in (1, 0)
    ]
    assert first_cause(lost) == lost[1]


@pytest.mark.parametrize(
    ("codes", "whole"), [([0, 0], 0), ([0, 130], 130), ([130, 3], 3), ([0, -9], 4), ([-15, 0], 4)]
)
def test_the_exit_code_of_all_together(codes: list[int], whole: int) -> None:
    assert exit_code([an_exit(r, c, 1.0) for r, c in enumerate(codes)]) == whole


def test_asked_to_end_and_ended_is_an_interruption() -> None:
    assert exit_code([an_exit(0, -9, 1.0, asked=True), an_exit(1, 0, 1.0, asked=True)]) == 130


def test_a_description_fills_in_the_place_and_keeps_the_workers_words() -> None:
    own = describe(an_exit(2, 4, 1.0, own=told("boom", node="", rank=None)), "n1")
    assert (own["node"], own["rank"], own["what"]) == ("n1", 2, "boom")
    crash = describe(an_exit(0, -11, 1.0, words=("a", "b", "c", "Segmentation fault")), "n1")
    assert crash["what"].splitlines()[0] == "killed by signal 11 (SIGSEGV); its last words:"
    assert crash["what"].splitlines()[-1].strip() == "Segmentation fault"
    assert describe(an_exit(0, -64, 1.0), "n1")["what"].startswith("killed by signal 64")


def test_a_stop_is_polite_then_final() -> None:
    stopping = Stopping(LIMITS)
    assert stopping.on_request(100.0) == signal.SIGTERM
    assert stopping.on_time(159.9) is None
    assert stopping.on_request(160.0) == signal.SIGKILL


def test_after_the_limit_the_rest_is_killed_once() -> None:
    stopping = Stopping(LIMITS)
    stopping.on_request(100.0)
    assert stopping.on_time(160.0) == signal.SIGKILL
    assert stopping.on_time(161.0) is None


def test_a_failure_gives_the_grace_and_a_request_within_it_no_second_signal() -> None:
    stopping = Stopping(LIMITS)
    assert stopping.on_exit(4, 100.0) == signal.SIGTERM
    assert stopping.on_exit(-15, 100.1) is None
    assert stopping.on_request(101.0) is None
    assert stopping.on_time(105.0) == signal.SIGKILL


def test_who_saved_and_ended_does_not_shorten_the_others_time() -> None:
    stopping = Stopping(LIMITS)
    assert stopping.on_exit(130, 100.0) == signal.SIGTERM
    assert stopping.on_exit(1, 101.0) is None
    assert stopping.on_time(110.0) is None
    assert stopping.on_time(160.0) == signal.SIGKILL


def test_good_ends_stop_nobody_and_the_nap_ends_at_the_deadline() -> None:
    stopping = Stopping(LIMITS)
    assert stopping.on_exit(0, 100.0) is None
    assert stopping.pause(100.0, 0.2) == 0.2
    stopping.on_exit(1, 100.0)
    assert stopping.pause(104.9, 0.2) == pytest.approx(0.1)
    assert stopping.pause(106.0, 0.2) == 0.0
