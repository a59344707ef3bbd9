"""What once went wrong, each with the right value."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from test_more_answers import network, predict
from test_resume import everything_on
from test_steps import small

from crew import make_photos, prepare, run_ranks, train
from shanty.comm.world import World
from shanty.errors import FailedError, RefusedError
from shanty.record.rundir import RunDir
from shanty.spec.config import ModelConfig
from shanty.train import checkpoint
from shanty.train.checkpoint import name_of, newest
from shanty.train.infer import Asked, infer
from shanty.train.parts import assemble
from shanty.train.saving import writes
from writers import make_run, save


def test_a_save_below_a_broken_newer_checkpoint_stays(tmp_path: Path) -> None:
    rundir = make_run(tmp_path / "run")
    save(rundir, 7)
    save(rundir, 9)
    file = rundir.checkpoints / name_of(9) / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-9])
    save(rundir, 8)  # resumed from 7, stopped after 8
    found, skipped = newest(rundir)
    assert found
    assert found.path.name == name_of(8)
    assert not skipped


def stuck(world: World) -> float:
    """Seconds until a read that hangs is given up."""

    def read(index: int) -> NDArray[np.uint8]:
        if index == 3:
            time.sleep(30)
        return np.zeros((32, 32, 3), np.uint8)

    asked = Asked(count=8, read=read, size=32, batch=2, threads=2, limit=1)
    start = time.monotonic()
    try:
        infer(network(), asked, world, on_progress=lambda _: None, should_stop=lambda: False)
    except FailedError:
        return time.monotonic() - start
    return 0.0


def test_a_stuck_read_in_validation_ends_within_its_limit() -> None:
    assert 1 <= run_ranks(1, stuck)[0] < 10  # the sleep is 30


def test_starting_a_run_by_hand_a_second_time_is_refused(tmp_path: Path) -> None:
    photos = make_photos(tmp_path / "photos", {"a": 20, "b": 20})
    rundir = prepare(photos, tmp_path / "run", small(epochs=3, batch=8))
    train(rundir, 1, stop_after=11)
    before, _ = newest(rundir)
    with pytest.raises(RefusedError, match="checkpoints of an earlier start"):
        train(rundir, 1)
    assert newest(rundir)[0] == before


def build(world: World, model: str) -> bool:
    assemble(small(batch=6, model=ModelConfig(name=model)), 3, world)
    return True


def test_ranks_that_never_get_an_image_can_be_built() -> None:
    assert run_ranks(4, build, "resnet18") == [True] * 4


def test_a_dangling_link_gets_the_fallback_row(tmp_path: Path) -> None:
    photos = make_photos(tmp_path / "photos", {"a": 20, "b": 20})
    rundir = prepare(photos, tmp_path / "run", small())
    train(rundir, 1)
    make_photos(tmp_path / "made", {"x": 5})
    (tmp_path / "made" / "x").rename(tmp_path / "test")
    (tmp_path / "test" / "9.png").symlink_to("nowhere.png")
    names = sorted(p.stem for p in (tmp_path / "test").iterdir())
    template = tmp_path / "t.csv"
    template.write_text("id,label\n" + "".join(f"{name},a\n" for name in names))
    with pytest.raises(FailedError, match="1 of 6 images could not be read"):
        predict(tmp_path, [rundir], template, 1)


def test_the_state_saved_when_stopped_at_an_epochs_end_is_replaced(tmp_path: Path) -> None:
    photos = make_photos(tmp_path / "photos", {"a": 30, "b": 26})
    config = replace(everything_on(), epochs=1)
    rundir, straight = (prepare(photos, tmp_path / n, config) for n in ("run", "straight"))
    steps = train(straight, 1)[0]["step"]
    train(rundir, 1, stop_after=steps - 1)
    train(rundir, 1, resume=True)
    one, two = (newest(run)[0] for run in (rundir, straight))
    assert one
    assert two
    assert one.meta["state"] == two.meta["state"]
    assert checkpoint.named(rundir, "best").meta["state"]["best_epoch"] == 0


def elect(world: World, root: Path, *, own: bool) -> bool:
    """As if each rank were a machine of its own."""
    folder = RunDir(root / (str(world.rank) if own else "shared"))
    folder.make()
    place = replace(world.place, local_rank=0, local_world_size=1)
    return writes(folder, replace(world, place=place))


def elect_shared(world: World, root: Path) -> bool:
    return elect(world, root, own=False)


def elect_own(world: World, root: Path) -> bool:
    return elect(world, root, own=True)


def test_machines_that_share_the_runs_folder_have_one_writer(tmp_path: Path) -> None:
    assert run_ranks(3, elect_shared, tmp_path) == [True, False, False]
    assert run_ranks(3, elect_own, tmp_path) == [True, True, True]
