"""mixup and cutmix: what is in the picture is what the labels say."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from shanty.spec.config import AugmentConfig
from shanty.train.mixing import Mixed, mix_batch

MIXUP, CUTMIX = AugmentConfig(mixup=1.0), AugmentConfig(cutmix=1.0)
BOTH = AugmentConfig(mixup=0.3, cutmix=1.0)


def flat(count: int, side: int = 24) -> torch.Tensor:
    """Images of one value each: 0, 1, 2, ... as float32 [count, 3, side, side]."""
    return torch.arange(float(count))[:, None, None, None].expand(count, 3, side, side).clone()


def mixed(config: AugmentConfig, seeds: list[int], side: int = 24) -> Mixed:
    labels = torch.arange(len(seeds)) * 10
    return mix_batch(flat(len(seeds), side), labels, config, seeds)


@pytest.mark.parametrize("config", [MIXUP, CUTMIX, BOTH])
def test_the_part_of_each_image_is_the_part_of_its_label(config: AugmentConfig) -> None:
    for start in range(0, 200, 6):
        done = mixed(config, list(range(start, start + 6)))
        own, other = torch.arange(6.0), torch.arange(5.0, -1, -1)
        expected = done.lam * own + (1 - done.lam) * other
        torch.testing.assert_close(done.images.mean((1, 2, 3)), expected, rtol=1e-5, atol=1e-5)
        assert done.first.tolist() == [0, 10, 20, 30, 40, 50]
        assert done.second.tolist() == [50, 40, 30, 20, 10, 0]
        assert bool(((done.lam >= 0) & (done.lam <= 1)).all())


def test_mixup_is_the_same_everywhere_in_the_picture() -> None:
    done = mixed(MIXUP, [1, 2, 3, 4])
    assert torch.equal(done.images.amax((1, 2, 3)), done.images.amin((1, 2, 3)))
    assert 0 < float(done.lam[0]) < 1


def test_cutmix_pastes_one_rectangle_and_blends_nothing() -> None:
    for seed in range(40):
        done = mixed(CUTMIX, [seed, seed + 1000])
        pasted = done.images[0, 0] == 1
        assert set(done.images[0].unique().tolist()) <= {0.0, 1.0}
        assert torch.equal(done.images[0, 0], done.images[0, 2]), "all channels alike"
        rows, columns = int(pasted.any(1).sum()), int(pasted.any(0).sum())
        assert rows * columns == int(pasted.sum()), "a rectangle without holes"
        assert abs(rows - columns) <= 1, "of the picture's own shape"
        assert float(done.lam[0]) == pytest.approx(1 - rows * columns / 24**2)


def test_cutmix_takes_the_same_place_of_the_other_picture() -> None:
    images = torch.rand(2, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    done = mix_batch(images, torch.tensor([0, 1]), CUTMIX, [5, 6])
    from_first, from_second = done.images[0] == images[0], done.images[0] == images[1]
    assert bool((from_first | from_second).all())
    assert bool(from_first.any())
    assert bool(from_second.any())


def test_rectangles_reach_every_corner() -> None:
    where = sum(mixed(CUTMIX, [seed, -seed - 1], 8).images[0, 0] for seed in range(300))
    assert isinstance(where, torch.Tensor)
    assert float(where.min()) > 15
    assert float(where.max()) < 285


def test_an_images_part_depends_on_its_own_seed_only() -> None:
    alone = mixed(BOTH, [7, 8]).lam
    among = mixed(BOTH, [7, 99, 98, 97, 8]).lam
    assert float(alone[0]) == float(among[0])
    assert float(alone[1]) == float(among[-1])


def test_it_repeats_for_equal_seeds_and_varies_with_them() -> None:
    first, again, other = (mixed(BOTH, list(range(n, n + 4))) for n in (0, 0, 50))
    assert torch.equal(first.images, again.images)
    assert torch.equal(first.lam, again.lam)
    assert not torch.equal(first.lam, other.lam)


def test_the_given_images_are_not_changed() -> None:
    images = flat(4)
    mix_batch(images, torch.arange(4), BOTH, [1, 2, 3, 4])
    assert torch.equal(images, flat(4))


def test_with_both_on_each_image_gets_one_of_them() -> None:
    blended = 0
    for seed in range(200):
        image = mixed(BOTH, [seed, seed + 9999]).images[0]
        values = image.unique().tolist()
        blended += len(values) == 1 and values[0] not in (0.0, 1.0)
    assert 60 < blended < 140  # 100, less what mixup leaves nearly whole; 4 deviations are 28


@settings(deadline=None, max_examples=60)
@given(st.floats(0.05, 20), st.integers(0, 2**64 - 1))
def test_any_alpha_gives_a_part_between_none_and_all(alpha: float, seed: int) -> None:
    for config in (AugmentConfig(mixup=alpha), AugmentConfig(cutmix=alpha)):
        done = mixed(config, [seed, seed ^ 1], side=8)
        assert bool(((done.lam >= 0) & (done.lam <= 1)).all())
        assert bool(torch.isfinite(done.images).all())


def test_a_small_alpha_leaves_most_pictures_nearly_whole_and_a_large_one_mixes_evenly() -> None:
    def parts(alpha: float) -> torch.Tensor:
        lam = [mixed(AugmentConfig(mixup=alpha), [s], side=4).lam for s in range(600)]
        return torch.cat(lam)

    few, even = parts(0.1), parts(50.0)
    assert float(((few < 0.05) | (few > 0.95)).float().mean()) > 0.6
    assert float((even - 0.5).abs().max()) < 0.25
    assert abs(float(few.mean()) - 0.5) < 0.1


def test_one_image_alone_stays_what_it_is() -> None:
    for config in (MIXUP, CUTMIX):
        done = mixed(config, [3])
        assert torch.equal(done.images, flat(1))
        assert done.first.tolist() == done.second.tolist()
