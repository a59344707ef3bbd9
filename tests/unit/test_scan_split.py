"""The hold-out: stratified, seeded, never all of a class."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from scan_trees import NFC, NFD, numbered, plant, scan

from shanty.scan.split import held_out

NAMES = st.lists(st.text(min_size=1, max_size=8), unique=True, max_size=60)
FRACTIONS = st.floats(0, 0.9)
SEEDS = st.integers(0, 1 << 40)


@given(NAMES, FRACTIONS, SEEDS)
def test_as_many_as_asked_at_least_one_and_never_all(
    paths: list[str], fraction: float, seed: int
) -> None:
    held = held_out(paths, fraction, seed)
    assert held <= set(paths)
    if fraction == 0 or len(paths) < 2:
        assert not held
    else:
        assert 1 <= len(held) <= len(paths) - 1
        assert abs(len(held) - len(paths) * fraction) <= 1 or len(held) in {1, len(paths) - 1}


@given(NAMES, FRACTIONS, SEEDS, st.randoms())
def test_the_order_of_the_files_does_not_matter(
    paths: list[str], fraction: float, seed: int, random: object
) -> None:
    other = list(paths)
    random.shuffle(other)  # type: ignore[attr-defined]
    assert held_out(other, fraction, seed) == held_out(paths, fraction, seed)


@given(NAMES, SEEDS)
def test_one_more_file_moves_at_most_one_other(paths: list[str], seed: int) -> None:
    before = held_out(paths, 0.3, seed)
    after = held_out([*paths, "a new file.jpg"], 0.3, seed)
    assert len(before - after) <= 1


def test_every_class_gives_its_share(tmp_path: Path) -> None:
    sizes = {"a": 100, "b": 20, "c": 3, "d": 2, "e": 1}
    plant(tmp_path, [path for name, n in sizes.items() for path in numbered(name, n)])
    data = scan(tmp_path)
    held = {name: sum(data.classes[s.label] == name for s in data.val) for name in sizes}
    assert held == {"a": 10, "b": 2, "c": 1, "d": 1, "e": 0}
    assert len(data.train) + len(data.val) == 126
    assert not {s.path for s in data.train} & {s.path for s in data.val}
    assert "14 of 126 images (11.1 %) held out for validation" in data.notes
    alone = "1 class has a single image, which is trained on and not validated"
    assert alone in data.notes


def test_the_seed_decides_and_repeats(tmp_path: Path) -> None:
    plant(tmp_path, [*numbered("a", 50), *numbered("b", 50)])
    assert scan(tmp_path, seed=1) == scan(tmp_path, seed=1)
    assert scan(tmp_path, seed=1).val != scan(tmp_path, seed=2).val
    assert scan(tmp_path, seed=1).digest != scan(tmp_path, seed=2).digest


def test_a_fraction_of_zero_holds_nothing_out(tmp_path: Path) -> None:
    data = scan(plant(tmp_path, [*numbered("a", 5), *numbered("b", 5)]), val_fraction=0)
    assert data.val == ()
    assert len(data.train) == 10
    assert "there is no validation set and none is held out" in data.notes


def test_a_decomposed_copy_is_split_alike(tmp_path: Path) -> None:
    parts = []
    for form in (NFC, NFD):
        root = plant(
            tmp_path / str(len(form)), [f"{c}/{form}{i}.jpg" for c in "ab" for i in range(20)]
        )
        parts.append({s.path.replace(NFD, NFC) for s in scan(root, val_fraction=0.5).val})
    assert parts[0] == parts[1]
