"""The recipe: what auto becomes, and that it never overrules the person."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from shanty.spec.config import (
    AugmentConfig,
    ModelConfig,
    OptimConfig,
    RunConfig,
    ScheduleConfig,
    check,
)
from shanty.spec.recipe import FINETUNE, SCRATCH, Recipe, lr_rule, recipe_for, resolve

TUNED = RunConfig(model=ModelConfig(weights="w.safetensors"))


def test_weights_decide_between_fine_tuning_and_training_from_scratch() -> None:
    assert recipe_for(RunConfig()) is SCRATCH
    assert recipe_for(TUNED) is FINETUNE


@pytest.mark.parametrize("config", [RunConfig(), TUNED])
def test_no_auto_of_the_recipe_is_left(config: RunConfig) -> None:
    done = resolve(config)
    for section in (done.optim, done.schedule, done.augment):
        assert None not in [getattr(section, f.name) for f in fields(section)]
    check(done)


@pytest.mark.parametrize(("config", "recipe"), [(RunConfig(), SCRATCH), (TUNED, FINETUNE)])
def test_every_auto_takes_its_number_from_the_recipe(config: RunConfig, recipe: Recipe) -> None:
    done = resolve(config)
    optim, augment = done.optim, done.augment
    assert optim.name == recipe.optim
    assert (optim.head_lr_scale, optim.weight_decay) == (recipe.head_lr_scale, recipe.weight_decay)
    assert (optim.smoothing, optim.clip, optim.ema) == (recipe.smoothing, recipe.clip, recipe.ema)
    assert (augment.min_area, augment.jitter) == (recipe.min_area, recipe.jitter)


@pytest.mark.parametrize("epochs", [1, 10, 90])
def test_warm_up_is_a_part_of_all_epochs(epochs: int) -> None:
    done = resolve(replace(TUNED, epochs=epochs))
    assert done.schedule.warmup == pytest.approx(FINETUNE.warmup * epochs)


def test_weight_decay_follows_the_optimizer() -> None:
    for config, recipe in ((RunConfig(), SCRATCH), (TUNED, FINETUNE)):
        sgd, adamw = (
            resolve(replace(config, optim=OptimConfig(name=name))).optim.weight_decay
            for name in ("sgd", "adamw")
        )
        assert (sgd, adamw) == (recipe.sgd_decay, recipe.weight_decay)


@pytest.mark.parametrize("config", [RunConfig(), TUNED])
def test_resolving_twice_changes_nothing(config: RunConfig) -> None:
    assert resolve(resolve(config)) == resolve(config)


def test_what_the_person_chose_stays_even_when_it_is_zero() -> None:
    chosen = OptimConfig(
        name="sgd", lr=0.0, head_lr_scale=3.0, weight_decay=0.0, smoothing=0.0, clip=0.0, ema=0.0
    )
    config = replace(
        TUNED,
        optim=chosen,
        schedule=ScheduleConfig(warmup=0.0),
        augment=AugmentConfig(min_area=1.0, jitter=0.0),
    )
    assert resolve(config) == config


@pytest.mark.parametrize(("batch", "factor"), [(64, 1), (256, 2), (16, 0.5), (128, 2**0.5)])
@pytest.mark.parametrize(("name", "base"), [(None, SCRATCH.lr), ("sgd", SCRATCH.sgd_lr)])
def test_the_learning_rate_grows_with_the_root_of_the_global_batch(
    batch: int, factor: float, name: str | None, base: float
) -> None:
    config = RunConfig(batch=batch, optim=OptimConfig(name=name))  # type: ignore[arg-type] # "sgd"
    assert resolve(config).optim.lr == pytest.approx(base * factor)


def test_the_rule_says_where_the_learning_rate_comes_from() -> None:
    assert lr_rule(RunConfig()) == f"{SCRATCH.lr:g} x sqrt(batch / 64)"
    assert lr_rule(TUNED) == f"{FINETUNE.lr:g} x sqrt(batch / 64)"
    sgd = replace(TUNED, optim=OptimConfig(name="sgd"))
    assert lr_rule(sgd) == f"{FINETUNE.sgd_lr:g} x sqrt(batch / 64)"
    assert lr_rule(RunConfig(optim=OptimConfig(lr=0.3))) == "as given"
