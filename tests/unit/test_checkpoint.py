"""Checkpoints: whole or not there. What is written, checked, found, pointed at and removed."""

from __future__ import annotations

import json
import math
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

from shanty.errors import FailedError, RefusedError
from shanty.record.atomic import TEMP_MARK
from shanty.record.rundir import RunDir
from shanty.train.checkpoint import (
    BrokenCheckpointError,
    name_of,
    named,
    newest,
    point,
    prune,
    verify,
    write,
)
from writers import files_of, make_run, save, step_of

NAMES = ["model.safetensors", "train.safetensors", "state.json"]


@pytest.fixture
def rundir(tmp_path: Path) -> RunDir:
    return make_run(tmp_path / "run")


def steps_in(rundir: RunDir) -> list[str]:
    return sorted(p.name for p in rundir.checkpoints.iterdir())


def test_what_was_written_is_read_and_nothing_else_lies_there(rundir: RunDir) -> None:
    folder = write(rundir, 7, files_of(7), {"step": 7})
    assert folder == rundir.checkpoints / "step-00000007"
    assert step_of(verify(folder)) == 7
    assert sorted(p.name for p in folder.iterdir()) == sorted(NAMES)
    assert steps_in(rundir) == [folder.name]


def test_facts_come_back_as_they_were(rundir: RunDir) -> None:
    facts = {
        "classes": ["고양이", "e\u0301", "caf\udce9"],
        "best": {"log_loss": math.inf, "accuracy": 1 / 3},
        "none": None,
        "seed": 2**63 - 1,
        "tiny": 5e-324,
    }
    folder = write(rundir, 1, {}, facts)
    assert {k: verify(folder).meta[k] for k in facts} == facts
    assert "고양이".encode() in (folder / "state.json").read_bytes()
    with_nan = verify(write(rundir, 2, {}, {"loss": math.nan}))
    assert math.isnan(with_nan.meta["loss"])


def test_tensors_of_every_kind_come_back_to_the_bit(rundir: RunDir) -> None:
    base = torch.arange(24.0).reshape(2, 3, 4)
    tensors = {
        "half": base.half(),
        "brain": (base / 7).bfloat16(),
        "counter": torch.tensor(2**40),
        "scalar": torch.tensor(0.1, dtype=torch.float64),
        "empty": torch.zeros(0, 3),
        "turned": base.transpose(0, 2),
        "channels_last": torch.rand(2, 3, 4, 5).to(memory_format=torch.channels_last),
        "weird": torch.tensor([math.nan, math.inf, -0.0]),
        "learned": nn.Parameter(torch.ones(3)),
        "part": base[1],
    }
    folder = write(rundir, 1, {"x.safetensors": tensors}, {})
    found = verify(folder).tensors("x.safetensors")
    assert found.keys() == tensors.keys()
    for name, value in tensors.items():
        assert found[name].dtype == value.dtype
        assert found[name].shape == value.shape
        assert torch.equal(found[name].nan_to_num(9), value.detach().nan_to_num(9)), name


def test_weights_that_two_layers_share_are_saved_under_both_names(rundir: RunDir) -> None:
    net = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    net[1].weight = net[0].weight
    weights = net.state_dict()
    folder = write(rundir, 1, {"model.safetensors": weights}, {})
    found = verify(folder).tensors("model.safetensors")
    assert found.keys() == weights.keys()
    assert all(torch.equal(found[name], weights[name]) for name in weights)


def damages() -> list[tuple[str, Callable[[Path], object]]]:
    return [
        ("missing", lambda p: p.unlink()),
        ("empty", lambda p: p.write_bytes(b"")),
        ("last byte lost", lambda p: p.write_bytes(p.read_bytes()[:-1])),
        ("half", lambda p: p.write_bytes(p.read_bytes()[: p.stat().st_size // 2])),
        ("longer", lambda p: p.write_bytes(p.read_bytes() + b"\0")),
        ("first byte", lambda p: flip(p, 0)),
        ("middle byte", lambda p: flip(p, p.stat().st_size // 2)),
        ("last bytes", lambda p: flip(p, p.stat().st_size - 2)),
        ("zeros", lambda p: p.write_bytes(b"\0" * p.stat().st_size)),
    ]


def is_whole(folder: Path) -> bool:
    try:
        verify(folder)
    except BrokenCheckpointError:
        return False
    return True


def flip(path: Path, place: int) -> None:
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("name", NAMES)
def test_every_damage_to_every_file_is_found(name: str, rundir: RunDir) -> None:
    folder = write(rundir, 1, files_of(1), {"step": 1})
    good = (folder / name).read_bytes()
    for what, damage in damages():
        damage(folder / name)
        assert not is_whole(folder), what
        (folder / name).write_bytes(good)
    assert verify(folder)


def test_every_single_changed_byte_of_the_state_is_found(rundir: RunDir) -> None:
    folder = write(rundir, 1, {}, {"step": 1, "classes": ["고양이", "b"], "lr": 0.125})
    for place in range((folder / "state.json").stat().st_size):
        flip(folder / "state.json", place)
        assert not is_whole(folder), place
        flip(folder / "state.json", place)
    assert verify(folder)


@pytest.mark.parametrize("text", ["[]", "null", "3", "{}", '{"format": 1}', '{"format": 2}'])
def test_a_state_of_another_kind_is_broken(text: str, rundir: RunDir) -> None:
    folder = write(rundir, 1, {}, {})
    (folder / "state.json").write_text(text)
    with pytest.raises(BrokenCheckpointError):
        verify(folder)


def test_the_newest_whole_one_is_found_and_what_was_passed_over_is_told(rundir: RunDir) -> None:
    assert newest(rundir) == (None, ())
    for step in (9, 10, 100, 101):
        write(rundir, step, files_of(step), {"step": step})
    flip(rundir.checkpoints / name_of(101) / "model.safetensors", 5000)
    (rundir.checkpoints / name_of(100) / "train.safetensors").unlink()
    shutil.copytree(rundir.checkpoints / name_of(9), rundir.checkpoints / f"{TEMP_MARK}step-9.1")
    found, skipped = newest(rundir)
    assert found
    assert step_of(found) == 10
    assert len(skipped) == 2
    assert skipped[0].startswith("step-00000101 is not complete (model.safetensors does not match")
    assert "train.safetensors" in skipped[1]


def test_when_none_is_whole_all_are_told(rundir: RunDir) -> None:
    for step in (1, 2):
        (write(rundir, step, {}, {}) / "state.json").unlink()
    found, skipped = newest(rundir)
    assert found is None
    assert [line.split()[0] for line in skipped] == [name_of(2), name_of(1)]


def test_a_whole_one_is_left_alone_and_a_broken_one_is_replaced(rundir: RunDir) -> None:
    folder = write(rundir, 5, files_of(5), {"step": 5})
    before = (folder / "state.json").stat()
    assert write(rundir, 5, files_of(5), {"step": 5}) == folder
    after = (folder / "state.json").stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    flip(folder / "model.safetensors", 3000)
    write(rundir, 5, files_of(5), {"step": 5})
    assert step_of(verify(folder)) == 5
    assert steps_in(rundir) == [folder.name]


def test_what_a_killed_process_of_the_same_number_left_is_no_obstacle(rundir: RunDir) -> None:
    """In a container the resumed run often has the killed run's process number."""
    left = rundir.checkpoints / f"{TEMP_MARK}{name_of(3)}.{os.getpid()}"
    left.mkdir()
    (left / "model.safetensors").write_bytes(b"half")
    assert step_of(verify(write(rundir, 3, files_of(3), {"step": 3}))) == 3
    assert steps_in(rundir) == [name_of(3)]


def test_best_and_last_are_found_by_their_names(rundir: RunDir) -> None:
    for step in (1, 2):
        save(rundir, step)
    assert step_of(named(rundir, "best")) == 1
    assert step_of(named(rundir, "last")) == 2
    told = json.loads(rundir.pointer("last").read_bytes())
    assert told == {"checkpoint": "checkpoints/step-00000002", "step": 2}


def test_a_moved_run_still_finds_its_checkpoints(rundir: RunDir, tmp_path: Path) -> None:
    save(rundir, 1)
    rundir.root.rename(tmp_path / "elsewhere")
    assert step_of(named(RunDir(tmp_path / "elsewhere"), "best")) == 1


@pytest.mark.parametrize("pointer", [None, b"", b"{", b"[]", b"{}", b"\xff"])
def test_no_readable_pointer_is_refused(pointer: bytes | None, rundir: RunDir) -> None:
    save(rundir, 2)
    if pointer is not None:
        rundir.pointer("best").write_bytes(pointer)
    with pytest.raises(RefusedError, match="has no 'best' checkpoint") as caught:
        named(rundir, "best")
    assert str(rundir.root) in caught.value.what


def test_a_pointer_to_a_broken_or_missing_checkpoint_is_refused(rundir: RunDir) -> None:
    folder = save(rundir, 1)
    flip(folder / "model.safetensors", 3000)
    with pytest.raises(RefusedError, match=r"the 'best' checkpoint of .* is broken: model") as one:
        named(rundir, "best")
    assert one.value.exit_code == 3
    shutil.rmtree(folder)
    with pytest.raises(RefusedError, match=r"is broken: .*No such file"):
        named(rundir, "best")


def test_a_checkpoint_that_vanishes_while_it_is_read_is_refused_in_words(rundir: RunDir) -> None:
    saved = verify(save(rundir, 1))
    shutil.rmtree(saved.path)
    with pytest.raises(RefusedError, match="removed while it was read"):
        saved.tensors("model.safetensors")


@pytest.mark.parametrize("keep", [1, 2, 5])
def test_the_newest_and_the_best_are_kept_and_torn_rests_go(keep: int, rundir: RunDir) -> None:
    folders = {s: write(rundir, s, files_of(s), {"step": s}) for s in range(1, 8)}
    point(rundir, "best", folders[2], {})
    (rundir.checkpoints / f"{TEMP_MARK}step-00000009.{os.getpid()}" / "deep").mkdir(parents=True)
    (rundir.checkpoints / f"{TEMP_MARK}step-00000008.1").mkdir()
    (rundir.root / f"{TEMP_MARK}best.json.1").write_bytes(b"{")
    (rundir.root / f"{TEMP_MARK}run.json.1").write_bytes(b"{")  # another process's, perhaps alive
    prune(rundir, keep, folders[7])
    assert steps_in(rundir) == [name_of(s) for s in (2, *range(8 - keep, 8))]
    assert [p.name for p in rundir.root.glob(f"{TEMP_MARK}*")] == [f"{TEMP_MARK}run.json.1"]
    for step in (2, 7):
        assert step_of(verify(folders[step])) == step


def test_pruning_without_a_best_keeps_the_newest(rundir: RunDir) -> None:
    folders = [write(rundir, step, {}, {}) for step in (1, 2, 3)]
    prune(rundir, 1, folders[-1])
    assert steps_in(rundir) == [name_of(3)]


def test_a_folder_that_cannot_be_written_is_named(rundir: RunDir) -> None:
    rundir.checkpoints.rmdir()
    rundir.checkpoints.write_bytes(b"a file is in the way")
    with pytest.raises(FailedError, match="cannot save to") as caught:
        write(rundir, 1, files_of(1), {})
    assert str(rundir.checkpoints) in caught.value.what
    assert rundir.checkpoints.read_bytes() == b"a file is in the way"


def test_every_file_is_on_the_disk_before_the_checkpoint_gets_its_name(
    rundir: RunDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The calls are really made, and written down: what was flushed, before the rename or after."""
    final = rundir.checkpoints / name_of(1)
    flushed: list[tuple[str, bool]] = []
    really = os.fsync

    def flush(fd: int) -> None:
        really(fd)
        flushed.append((Path(f"/proc/self/fd/{fd}").readlink().name, final.exists()))

    monkeypatch.setattr(os, "fsync", flush)
    write(rundir, 1, files_of(1), {})
    temp = f"{TEMP_MARK}{final.name}.{os.getpid()}"
    expected = [*((name, False) for name in NAMES), (temp, False), ("checkpoints", True)]
    assert flushed == expected
