"""Checkpoints under fire: kills at every moment of a save, full disks, readers beside writers."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from shanty.errors import RefusedError, from_dict
from shanty.record.atomic import TEMP_MARK
from shanty.record.rundir import RunDir
from shanty.train.checkpoint import name_of, named, newest, point, verify, write
from writers import (
    files_of,
    make_run,
    save,
    save_and_die,
    save_until,
    save_with_limit,
    start,
    step_of,
)

TESTS = Path(__file__).resolve().parents[1]


def rests(rundir: RunDir) -> list[str]:
    return [p.name for p in rundir.root.rglob(f"{TEMP_MARK}*")]


def readable(rundir: RunDir) -> int:
    """The step to resume from; what ``best`` and ``last`` point to is whole as well."""
    found, _ = newest(rundir)
    assert found, "nothing to resume from"
    assert step_of(named(rundir, "last")) <= step_of(found)
    assert step_of(named(rundir, "best")) <= step_of(found)
    return step_of(found)


@pytest.mark.parametrize("times", [20, pytest.param(100, marks=pytest.mark.soak)])
def test_killed_at_random_moments_of_a_save_there_is_always_a_whole_one(
    times: int, tmp_path: Path
) -> None:
    rng, rundir = random.Random(times), make_run(tmp_path / "run")
    begin = time.monotonic()
    for step in range(1, 4):
        save(rundir, step)
    one_save = (time.monotonic() - begin) / 3
    last, torn = 3, 0
    for _ in range(times):
        process, pipe = start(save_until, rundir.root, last + 1, last + 10**6)
        assert pipe.poll(60)
        time.sleep(rng.uniform(0, 3 * one_save))
        process.kill()
        process.join()
        done = last
        while pipe.poll():
            try:
                done = pipe.recv()
            except EOFError:
                break
        torn += bool(rests(rundir))
        last = readable(rundir)
        assert done <= last <= done + 1, "at most the save that was cut off is lost"
    assert torn >= times // 10, "kills did hit saves"
    save(rundir, last + 1)
    assert rests(rundir) == []


def test_killed_before_any_single_use_of_the_folder_there_is_always_a_whole_one(
    tmp_path: Path,
) -> None:
    touch = before = after = 0
    while True:
        rundir = make_run(tmp_path / str(touch))
        save(rundir, 1)
        save(rundir, 2)
        process, pipe = start(save_and_die, rundir.root, 4, touch)
        process.join(60)
        if process.exitcode == 0:
            assert pipe.recv() == 4
            break
        assert process.exitcode == -9
        found = readable(rundir)
        assert found in (2, 4)
        before, after = before + (found == 2), after + (found == 4)
        save(rundir, 5)
        assert readable(rundir) == 5
        assert rests(rundir) == []
        touch += 1
    assert before >= 7, "three files, two folders, the rename"
    assert after >= 10, "two pointers, and the removal of the old ones"
    assert [p.name for p in rundir.checkpoints.iterdir()] == [name_of(4)]


def test_a_reader_beside_a_writer_never_sees_a_part_of_a_checkpoint(tmp_path: Path) -> None:
    """Each old checkpoint is removed as soon as there is a newer one: the hardest case."""
    rundir = make_run(tmp_path / "run")
    save(rundir, 1)
    process, pipe = start(save_until, rundir.root, 2, 51)
    seen: set[int] = set()
    reads = 0
    while 51 not in seen:
        assert process.is_alive() or process.exitcode == 0
        found, skipped = newest(rundir)
        assert found, skipped
        assert skipped == ()
        for saved in (found, named(rundir, "last"), named(rundir, "best")):
            reads += 1
            try:
                seen.add(step_of(saved))
            except RefusedError as error:  # checked whole, then removed: said so, not half read
                assert "removed while it was read" in error.what  # noqa: PT017 - the rare case
                assert not saved.path.exists()
    process.join(60)
    pipe.close()
    assert len(seen) >= 5
    assert reads > 10
    assert sorted(p.name for p in rundir.checkpoints.iterdir()) == [name_of(49), name_of(51)]


def test_a_best_that_is_replaced_while_it_is_read_gives_the_new_one(tmp_path: Path) -> None:
    """A named pipe holds the reader inside the old one until the new one is announced."""
    rundir = make_run(tmp_path / "run")
    old = save(rundir, 1)
    (old / "state.json").unlink()
    os.mkfifo(old / "state.json")
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(named, rundir, "best")
        with (old / "state.json").open("wb") as gate:  # opens when the reader is there
            point(rundir, "best", write(rundir, 2, files_of(2), {"step": 2}), {})
            gate.write(b"{")
        assert step_of(reading.result(60)) == 2


FULL = """
import json, sys
from pathlib import Path
from shanty.errors import FailedError
from shanty.train.checkpoint import verify
from writers import make_run, save, step_of
rundir = make_run(Path(sys.argv[1]))
first = save(rundir, 1)
try:
    save(rundir, 2)
except FailedError as error:
    rest = sorted(p.name for p in rundir.root.rglob("*") if ".tmp" in p.name)
    print(json.dumps([error.to_dict(), step_of(verify(first)), rest]))
"""


def test_a_full_disk_leaves_the_last_good_one_and_says_what_is_needed(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("mounting a small disk needs root")
    needed = sum(t.nbytes for part in files_of(2).values() for t in part.values())
    mount = f'mount -t tmpfs -o size={int(1.5 * needed)} none {tmp_path} && exec "$@"'
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", mount, "sh", sys.executable, "-c", FULL, tmp_path / "run"],
        capture_output=True, text=True, check=False, timeout=120,
        env=os.environ | {"PYTHONPATH": str(TESTS)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    told, good, rest = json.loads(done.stdout)
    error = from_dict(told)
    assert error.exit_code == 4
    assert error.what.startswith(f"disk full while saving to {tmp_path}/run/checkpoints: ")
    assert f"{needed:,} bytes needed" in error.what
    free = int(error.what.split()[-2].replace(",", ""))
    assert 0 < free < needed, "what is free once the torn rest is gone"
    assert "--resume" in error.hint
    assert good == 1
    assert rest == []


@pytest.mark.parametrize("most", [0, 100, 100_000])
def test_a_save_that_fails_after_some_bytes_leaves_the_last_good_one(
    most: int, tmp_path: Path
) -> None:
    """A limit on the size of a file stands for a full disk where nobody may mount one."""
    rundir = make_run(tmp_path / "run")
    first = save(rundir, 1)
    process, pipe = start(save_with_limit, rundir.root, 2, most)
    assert pipe.poll(60)
    error = from_dict(pipe.recv())
    process.join(60)
    assert str(rundir.checkpoints) in error.what
    assert "file of this size is not allowed" in error.what
    assert step_of(verify(first)) == 1
    assert readable(rundir) == 1
    assert rests(rundir) == []
    process, pipe = start(save_with_limit, rundir.root, 2, 200_000)
    assert pipe.poll(60)
    assert pipe.recv() is None, "with room enough it goes on"
    process.join(60)
    assert readable(rundir) == 2
