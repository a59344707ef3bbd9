"""Averaged weights: the formula, what is averaged, and the way in and out of the model."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from shanty.train.ema import Ema

TOLERANCE = {"rtol": 1e-6, "atol": 1e-7}


def model() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(16, 2))


def learn(net: nn.Module, step: int) -> None:
    """Move every weight, and BatchNorm's statistics by a forward in training mode."""
    torch.manual_seed(100 + step)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.add_(torch.randn_like(parameter))
        net.train()(torch.randn(5, 3, 4, 4))


def floats(net: nn.Module) -> dict[str, torch.Tensor]:
    return {n: t.clone() for n, t in net.state_dict().items() if t.is_floating_point()}


@pytest.mark.parametrize("decay", [0.0, 0.5, 0.99])
def test_the_averages_follow_the_formula(decay: float) -> None:
    net = model()
    ema = Ema(net, decay)
    expected = {n: t.double() for n, t in floats(net).items()}
    for step in range(12):
        learn(net, step)
        ema.update(step)
        d = min(decay, (1 + step) / (10 + step))
        expected = {n: d * expected[n] + (1 - d) * t.double() for n, t in floats(net).items()}
    assert ema.average.keys() == expected.keys()
    for name, average in ema.average.items():
        torch.testing.assert_close(average.double(), expected[name], **TOLERANCE)


def test_the_decay_grows_with_the_step_up_to_its_limit() -> None:
    """Old averages are 0 and weights are 1, so an average of 1 - d is left."""
    net = nn.Linear(1, 1, bias=False)
    for step, decay in ((0, 0.1), (8, 0.5), (89, 90 / 99), (10**6, 0.99)):
        nn.init.zeros_(net.weight)
        ema = Ema(net, 0.99)
        nn.init.ones_(net.weight)
        ema.update(step)
        assert float(ema.average["weight"]) == pytest.approx(1 - decay, rel=1e-4)


def test_weights_and_statistics_are_averaged_and_counters_are_not() -> None:
    ema = Ema(model(), 0.9)
    assert ema.buffer_names == ("1.running_mean", "1.running_var")
    assert set(ema.buffers()) == {"1.running_mean", "1.running_var"}
    assert "1.num_batches_tracked" not in ema.average
    assert {"0.weight", "1.weight", "3.bias"} <= ema.average.keys()


def test_the_averages_are_no_views_of_the_model() -> None:
    net = model()
    ema = Ema(net, 0.9)
    before = {n: t.clone() for n, t in ema.average.items()}
    learn(net, 0)
    assert all(torch.equal(ema.average[n], t) for n, t in before.items())
    live = floats(net)
    ema.update(0)
    assert all(torch.equal(t, live[n]) for n, t in floats(net).items())


def test_swap_puts_the_averages_in_and_a_second_swap_takes_them_out_to_the_bit() -> None:
    net = model()
    ema = Ema(net, 0.9)
    for step in range(3):
        learn(net, step)
        ema.update(step)
    live, averages = floats(net), {n: t.clone() for n, t in ema.average.items()}
    ema.swap()
    assert all(torch.equal(t, averages[n]) for n, t in floats(net).items())
    assert all(torch.equal(ema.average[n], t) for n, t in live.items())
    ema.swap()
    assert all(torch.equal(t, live[n]) for n, t in floats(net).items())
    assert all(torch.equal(ema.average[n], t) for n, t in averages.items())


def test_a_swapped_model_computes_with_the_averages() -> None:
    net, images = model(), torch.randn(2, 3, 4, 4)
    ema = Ema(net, 0.9)
    learn(net, 0)
    ema.update(0)
    expected = model()
    expected.load_state_dict(net.state_dict() | ema.average)
    ema.swap()
    assert torch.equal(net.eval()(images), expected.eval()(images))


def test_a_decay_of_zero_is_the_model_itself() -> None:
    net = model()
    ema = Ema(net, 0.0)
    learn(net, 0)
    ema.update(0)
    for name, value in floats(net).items():
        torch.testing.assert_close(ema.average[name], value, **TOLERANCE)


def test_frozen_weights_stay_where_they_are() -> None:
    net = model()
    net[0].requires_grad_(requires_grad=False)
    ema = Ema(net, 0.9)
    for step in range(5):
        ema.update(step)
    assert torch.equal(ema.average["0.weight"], net.state_dict()["0.weight"])
