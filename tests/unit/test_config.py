"""The config: limits are enforced, words are strict, and JSON there and back loses nothing."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import FrozenInstanceError, dataclass, fields, is_dataclass, replace
from typing import Any

import pytest

from shanty.errors import UsageError
from shanty.spec.codec import from_dict, nearest, to_dict
from shanty.spec.config import ModelConfig, OptimConfig, RunConfig, check
from shanty.spec.run import Attempt, TrainSpec


def every_option(config: Any = None, path: tuple[str, ...] = ()) -> Iterator[Any]:
    """(path, field) of every value a person can choose."""
    config = config or RunConfig()
    for item in fields(config):
        value = getattr(config, item.name)
        if is_dataclass(value):
            yield from every_option(value, (*path, item.name))
        else:
            yield (*path, item.name), item


OPTIONS = list(every_option())
BOUNDED = [(p, f) for p, f in OPTIONS if f.metadata["low"] is not None]
NAMES = [".".join(p) for p, _ in BOUNDED]


def with_value(path: tuple[str, ...], value: object) -> RunConfig:
    """The default config with one value set."""
    if len(path) == 1:
        return replace(RunConfig(), **{path[0]: value})  # type: ignore[arg-type] # any field
    section = replace(getattr(RunConfig(), path[0]), **{path[1]: value})
    return replace(RunConfig(), **{path[0]: section})


def test_the_defaults_pass() -> None:
    check(RunConfig())


@pytest.mark.parametrize(("path", "item"), BOUNDED, ids=NAMES)
def test_limits_are_inclusive_and_the_message_names_key_and_range(
    path: tuple[str, ...], item: Any
) -> None:
    low, high = item.metadata["low"], item.metadata["high"]
    check(with_value(path, low))
    wrong = [low - 1]
    if high is not None:
        check(with_value(path, high))
        wrong.append(high + 1)
    for value in wrong:
        with pytest.raises(UsageError) as caught:
            check(with_value(path, value))
        assert caught.value.what == f"{'.'.join(path)} = {value} is out of range"
        bounds = f"at least {low}" if high is None else f"between {low} and {high}"
        assert caught.value.hint == f"choose {bounds}"


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_number_that_is_none_is_refused(value: float) -> None:
    for path, item in BOUNDED:
        if "float" in str(item.type):
            with pytest.raises(UsageError, match=".".join(path)):
                check(with_value(path, value))


def test_every_option_has_a_help_text_and_every_number_a_limit() -> None:
    for path, item in OPTIONS:
        assert len(item.metadata["help"]) > 8, path
        if "int" in str(item.type) or "float" in str(item.type):
            assert item.metadata["low"] is not None, path


def test_a_config_never_changes_after_it_was_made() -> None:
    with pytest.raises(FrozenInstanceError):
        RunConfig().batch = 3  # type: ignore[misc] # what this test is about


def over_the_wire(value: Any) -> Any:
    return from_dict(type(value), json.loads(json.dumps(to_dict(value))))


def test_json_there_and_back_gives_an_equal_config() -> None:
    chosen = RunConfig(
        micro_batch=4,
        seed=2**63 - 1,
        model=ModelConfig(name="모델", weights="a/\udcff.safetensors", partial=True),
        optim=OptimConfig(name="sgd", lr=1e-5, clip=0.0),
    )
    assert over_the_wire(RunConfig()) == RunConfig()
    assert over_the_wire(chosen) == chosen


def test_json_there_and_back_keeps_tuples_of_values_and_dictionaries() -> None:
    attempts = tuple(Attempt(generation=g, started="now", world_size=3) for g in range(2))
    spec = TrainSpec(
        run_id="r", rundir="/r", config=RunConfig(), recipe="x", lr_rule="y",
        attempts=attempts, versions={"torch": "2"},
    )  # fmt: skip
    assert over_the_wire(spec) == spec
    assert over_the_wire(spec).generation == 1


def test_an_unknown_key_is_refused_with_its_section_and_the_nearest_one() -> None:
    with pytest.raises(UsageError) as caught:
        from_dict(RunConfig, {"optim": {"learning_rate": 1, "wieght_decay": 0.1}})
    assert caught.value.what == "unknown key optim.learning_rate"
    with pytest.raises(UsageError) as caught:
        from_dict(RunConfig, {"optim": {"wieght_decay": 0.1}})
    assert caught.value.what == "unknown key optim.wieght_decay"
    assert caught.value.hint == "did you mean 'weight_decay'?"


def test_nearest_lists_what_there_is_when_nothing_is_near() -> None:
    assert nearest("zzz", ["lr", "clip", "ema"]) == "choose one of: clip, ema, lr"
    assert nearest("epoch", ["epochs", "batch"]) == "did you mean 'epochs'?"


@dataclass(frozen=True, kw_only=True)
class Inner:
    part: float


@dataclass(frozen=True, kw_only=True)
class Outer:
    name: str
    inner: Inner | None = None
    pairs: tuple[tuple[str, str], ...] = ()
    many: tuple[Inner, ...] = ()


def test_whole_numbers_become_floats_and_lists_become_tuples_at_any_depth() -> None:
    data = {"name": "n", "inner": {"part": 1}, "pairs": [["a", "b"]], "many": [{"part": 2}]}
    made = from_dict(Outer, data)
    assert made == Outer(
        name="n", inner=Inner(part=1.0), pairs=(("a", "b"),), many=(Inner(part=2.0),)
    )
    assert [type(i.part) for i in made.many] == [float]


def test_what_is_no_mapping_or_not_complete_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="Outer is no mapping"):
        from_dict(Outer, ["name"])  # type: ignore[arg-type] # what this test is about
    with pytest.raises(TypeError, match="name"):
        from_dict(Outer, {"inner": None})
