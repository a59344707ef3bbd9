"""The whole way, as a person goes it: train, stop, resume, evaluate, predict, elsewhere too."""

from __future__ import annotations

import csv
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from crew import events, make_photos
from shanty.record.events import Ended, Saved, StepDone
from shanty.record.reader import read_all
from shanty.record.rundir import RunDir
from shanty.train import checkpoint

SHANTY = [str(Path(sys.executable).with_name("shanty"))]
FAST = ["--model", "test_convnext", "--size", "32", "--set", "device=cpu"]


def shanty(*words: str | Path, cwd: Path, limit: float = 150) -> subprocess.CompletedProcess[str]:
    command = [*SHANTY, *map(str, words)]
    return subprocess.run(
        command, cwd=cwd, capture_output=True, text=True, timeout=limit, check=False
    )


def left_over(rundir: Path) -> list[str]:
    """Command lines of processes that still have to do with this run."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = entry.read_bytes().decode(errors="replace").replace("\0", " ")
        except OSError:
            continue
        if str(rundir) in words and "pytest" not in words:
            found.append(words)
    return found


def wait_for(what: str, test: object, limit: float = 90) -> None:
    end = time.monotonic() + limit
    while time.monotonic() < end:
        if test():  # type: ignore[operator]
            return
        time.sleep(0.1)
    raise AssertionError(f"{what} did not happen in {limit} s")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Photos with names in Hangul, 101 test images and a shuffled template, one trained run."""
    root = tmp_path_factory.mktemp("world")
    make_photos(root / "photos", {"고양이": 40, "개": 40, "새": 40})
    made = make_photos(root / "made", {"x": 101}, seed=9) / "x"
    (root / "flat" / "x").mkdir(parents=True)
    for number, file in enumerate(sorted(made.iterdir()), 1):
        file.rename(root / "flat" / "x" / f"{number}.png")
    order = np.random.default_rng(1).permutation(np.arange(1, 102))
    lines = ["ID,새,고양이,개", *(f"{n},0,0,0" for n in order)]
    (root / "sample.csv").write_bytes(("\r\n".join(lines) + "\r\n").encode("utf-8-sig"))
    done = shanty("train", "photos", *FAST, "--epochs", "3", "--lr", "0.01", "--nproc", "2",
                  "--out", "run", cwd=root)  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    (root / "train.txt").write_text(done.stdout)
    assert done.stderr == ""
    return root


def test_training_says_what_was_derived_and_where_the_result_lies(world: Path) -> None:
    said = (world / "train.txt").read_text()
    assert "\x1b" not in said
    for word in ("64 global (32 + 32)", "from scratch", "epoch 3/3", "checkpoint:", "고양이"):
        assert word in said, said
    pointer = json.loads((world / "run" / "best.json").read_bytes())
    assert (world / "run" / pointer["checkpoint"] / "model.safetensors").exists()
    assert not left_over(world / "run")


def test_the_submission_is_the_same_file_for_1_2_and_3_ranks(world: Path) -> None:
    written = []
    for ranks in ("1", "2", "3"):
        out = world / f"out{ranks}.csv"
        done = shanty("predict", "run", "flat/x", "--template", "sample.csv", "-o", out,
                      "--nproc", ranks, "--device", "cpu", cwd=world)  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        written.append(out.read_bytes())
    assert written[0] == written[1] == written[2]
    template = (world / "sample.csv").read_bytes()
    assert written[0].startswith(template.split(b"\r\n")[0] + b"\r\n")
    rows = list(csv.reader(written[0].decode("utf-8-sig").splitlines()))
    wanted = [line.split(",")[0] for line in template.decode("utf-8-sig").splitlines()]
    assert [row[0] for row in rows] == wanted
    for row in rows[1:]:
        assert abs(sum(map(float, row[1:])) - 1) < 1e-8


def test_an_existing_file_is_not_overwritten(world: Path) -> None:
    (world / "mine.csv").write_text("precious")
    done = shanty("predict", "run", "flat/x", "-o", "mine.csv", cwd=world)
    assert done.returncode == 2
    assert "mine.csv" in done.stderr
    assert (world / "mine.csv").read_text() == "precious"


def test_the_run_folder_alone_predicts_the_same_elsewhere(world: Path, tmp_path: Path) -> None:
    first = shanty("predict", "run", "flat/x", "--template", "sample.csv", "-o", "here.csv",
                   "--tta", cwd=world)  # fmt: skip
    assert first.returncode == 0, first.stderr
    elsewhere = tmp_path / "another place"
    elsewhere.mkdir()
    shutil.copytree(world / "run", elsewhere / "moved")
    shutil.copytree(world / "flat" / "x", elsewhere / "test")
    shutil.copy(world / "sample.csv", elsewhere)
    (world / "photos").rename(world / "gone")
    try:
        command = [*SHANTY, "predict", "moved", "test", "--template", "sample.csv", "-o",
                   "there.csv", "--tta"]  # fmt: skip
        if os.geteuid() == 0:  # no network at all: nothing may be fetched
            command = ["unshare", "-n", "sh", "-c", 'ip link set lo up; exec "$@"', "-", *command]
        done = subprocess.run(
            command, cwd=elsewhere, capture_output=True, text=True, timeout=150, check=False
        )
    finally:
        (world / "gone").rename(world / "photos")
    assert done.returncode == 0, done.stdout + done.stderr
    assert (elsewhere / "there.csv").read_bytes() == (world / "here.csv").read_bytes()


def test_an_unreadable_test_image_gets_the_fallback_and_shows(world: Path, tmp_path: Path) -> None:
    shutil.copytree(world / "flat" / "x", tmp_path / "test")
    (tmp_path / "test" / "7.png").write_bytes(b"not an image")
    done = shanty("predict", world / "run", "test", "--template", world / "sample.csv", "-o",
                  "out.csv", "--nproc", "2", "--device", "cpu", cwd=tmp_path)  # fmt: skip
    assert done.returncode == 4
    assert "7.png" in done.stderr + done.stdout
    rows = {r[0]: r for r in csv.reader((tmp_path / "out.csv").read_text("utf-8-sig").splitlines())}
    assert len(rows) == 102
    prior = [float(p) for p in rows["7"][1:]]
    assert prior == pytest.approx([1 / 3] * 3, abs=0.01)


def test_evaluate_gives_the_printed_validation_result(world: Path, tmp_path: Path) -> None:
    data = json.loads((world / "run" / "data.json").read_bytes())
    for sample in data["val"]:
        source = world / "photos" / sample["path"]
        target = tmp_path / "held" / sample["path"]
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target)
    done = shanty(
        "evaluate", world / "run", "held", "--nproc", "3", "--device", "cpu", cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    best = json.loads((world / "run" / "best.json").read_bytes())["metrics"]
    assert f"{best['log_loss']:.4f}" in done.stdout
    assert f"{100 * best['accuracy']:.1f} %" in done.stdout


def test_a_class_that_the_run_does_not_know_is_refused(world: Path, tmp_path: Path) -> None:
    make_photos(tmp_path / "held", {"개": 3, "토끼": 4})
    done = shanty("evaluate", world / "run", "held", cwd=tmp_path)
    assert done.returncode == 3
    assert "토끼" in done.stderr
    assert "4" in done.stderr


def start_long(folder: Path, *words: str) -> subprocess.Popen[str]:
    command = [*SHANTY, "train", "photos", *FAST, "--epochs", "200", "--batch", "16", "--nproc",
               "2", "--out", "run", *words]  # fmt: skip
    return subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def steps_of(folder: Path) -> int:
    run = RunDir(folder / "run")
    return len(events(run, StepDone, rank=0)) if run.events.exists() else 0


def test_ctrl_c_saves_says_how_to_resume_and_leaves_nothing(tmp_path: Path) -> None:
    make_photos(tmp_path / "photos", {"a": 40, "b": 40})
    job = start_long(tmp_path)
    wait_for("five steps", lambda: steps_of(tmp_path) > 5)
    job.send_signal(signal.SIGINT)
    out, err = job.communicate(timeout=15)
    assert job.returncode == 130, out + err
    assert "shanty train --resume run" in out + err
    assert not left_over(tmp_path / "run")
    rundir = RunDir(tmp_path / "run")
    saved = events(rundir, Saved)[-1]
    assert saved.step == max(e.step for e in events(rundir, StepDone, rank=0))
    ends = [e.body.exit_code for e in read_all(rundir.events) if isinstance(e.body, Ended)]
    assert ends == [130, 130, 130]  # two ranks and their agent
    again = shanty("train", "--resume", "run", "--nproc", "1", "--dry-run", cwd=tmp_path)
    assert again.returncode == 0, again.stderr


def test_a_second_ctrl_c_ends_it_at_once(tmp_path: Path) -> None:
    make_photos(tmp_path / "photos", {"a": 40, "b": 40})
    job = start_long(tmp_path)
    wait_for("two steps", lambda: steps_of(tmp_path) > 2)
    job.send_signal(signal.SIGINT)
    job.send_signal(signal.SIGINT)
    job.communicate(timeout=15)
    assert job.returncode == 130
    wait_for("no process is left", lambda: not left_over(tmp_path / "run"), 5)


def test_a_closed_terminal_does_not_end_the_training(tmp_path: Path) -> None:
    make_photos(tmp_path / "photos", {"a": 40, "b": 40})
    job = start_long(tmp_path)
    wait_for("two steps", lambda: steps_of(tmp_path) > 2)
    job.kill()
    job.communicate(timeout=10)
    before = steps_of(tmp_path)
    wait_for("more steps", lambda: steps_of(tmp_path) > before + 3)
    refused = shanty("train", "--resume", "run", cwd=tmp_path)
    assert refused.returncode in (2, 3)
    agent = json.loads((tmp_path / "run" / "agent.json").read_bytes())["agent"]["pid"]
    assert str(agent) in refused.stderr
    os.kill(agent, signal.SIGTERM)
    wait_for("no process is left", lambda: not left_over(tmp_path / "run"), 20)


def test_a_killed_rank_is_named_and_the_others_end(tmp_path: Path) -> None:
    make_photos(tmp_path / "photos", {"a": 40, "b": 40})
    job = start_long(tmp_path)
    wait_for("two steps", lambda: steps_of(tmp_path) > 2)
    workers = json.loads((tmp_path / "run" / "agent.json").read_bytes())["workers"]
    os.kill(workers[1]["pid"], signal.SIGKILL)
    out, err = job.communicate(timeout=20)
    assert job.returncode == 4
    assert "rank 1" in err
    assert "SIGKILL" in err
    assert "Connection closed" not in out + err
    assert not left_over(tmp_path / "run")


def test_one_picture_in_two_orientations_gets_one_answer(world: Path, tmp_path: Path) -> None:
    folder = tmp_path / "test"
    folder.mkdir()
    pixels = np.random.default_rng(3).integers(0, 255, (48, 64, 3), dtype=np.uint8)
    upright = Image.fromarray(pixels)
    upright.save(folder / "upright.png")
    exif = Image.Exif()
    exif[0x0112] = 6
    upright.transpose(Image.Transpose.ROTATE_90).save(folder / "tagged.png", exif=exif)
    (tmp_path / "t.csv").write_text("ID,개,고양이,새\nupright,0,0,0\ntagged,0,0,0\n")
    done = shanty("predict", world / "run", "test", "--template", "t.csv", "-o", "o.csv",
                  cwd=tmp_path)  # fmt: skip
    assert done.returncode == 0, done.stderr
    _, one, other = csv.reader((tmp_path / "o.csv").read_text().splitlines())
    assert np.allclose(list(map(float, one[1:])), list(map(float, other[1:])), atol=1e-5)


def listeners(pid: int) -> list[str]:
    """Addresses (hex, as /proc writes them) on which a process waits for connections."""
    own = set()
    for fd in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # it may be closed by now
            own.add(str(fd.readlink())[8:-1])
    found = []
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in own:
                found.append(fields[1].split(":")[0])
    return found


def test_nothing_listens_beyond_this_machine(tmp_path: Path) -> None:
    make_photos(tmp_path / "photos", {"a": 40, "b": 40})
    job = start_long(tmp_path)
    wait_for("two steps", lambda: steps_of(tmp_path) > 2)
    owner = json.loads((tmp_path / "run" / "agent.json").read_bytes())
    pids = [owner["agent"]["pid"], job.pid, *(w["pid"] for w in owner["workers"])]
    found = [address for pid in pids for address in listeners(pid)]
    job.send_signal(signal.SIGINT)
    job.communicate(timeout=15)
    assert found  # the ranks do talk to each other
    assert set(found) == {"0100007F"}


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a small disk: needs root")
@pytest.mark.parametrize(
    ("room", "code", "says"),
    [("600k", 3, "bytes free; two checkpoints need"), ("24m", 4, "disk full while saving")],
)
def test_a_full_disk_is_named_and_the_last_good_checkpoint_stays(
    tmp_path: Path, room: str, code: int, says: str
) -> None:
    make_photos(tmp_path / "photos", {"a": 20, "b": 20})
    (tmp_path / "small").mkdir()
    script = (
        f"mount -t tmpfs -o size={room} tmpfs small || exit 99\n"
        '"$@"\ncode=$?\nmkdir kept; cp -r small/. kept; exit $code'
    )
    train = [*SHANTY, "train", "photos", "--model", "test_resnet", "--size", "32", "--epochs", "60",
             "--nproc", "2", "--set", "device=cpu", "--out", "small/run",
             "--set", "checkpoint.keep=60"]  # fmt: skip
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", script, "-", *train],
        cwd=tmp_path, capture_output=True, text=True, timeout=150, check=False,
    )  # fmt: skip
    assert done.returncode == code, done.stdout + done.stderr
    assert says in done.stderr
    assert done.stderr.startswith("local")
    if code == 3:
        return
    assert "bytes needed" in done.stderr
    assert str(tmp_path / "small" / "run" / "checkpoints") in done.stderr
    found, skipped = checkpoint.newest(RunDir(tmp_path / "kept" / "run"))
    assert found
    assert not skipped
    assert not list((tmp_path / "kept" / "run" / "checkpoints").glob(".tmp*"))


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a small disk: needs root")
def test_a_disk_that_fills_inside_an_epoch_is_named(tmp_path: Path) -> None:
    make_photos(tmp_path / "photos", {"a": 40, "b": 40})
    (tmp_path / "small").mkdir()
    script = (
        "mount -t tmpfs -o size=24m tmpfs small || exit 99\n"
        '"$@" & job=$!\n'
        "until [ -e small/run/last.json ]; do kill -0 $job || exit 98; sleep 0.1; done\n"
        "dd if=/dev/zero of=small/filler bs=4k 2>/dev/null\n"
        "wait $job; code=$?; rm small/filler; mkdir kept; cp -r small/run kept; exit $code"
    )
    train = [*SHANTY, "train", "photos", "--model", "test_resnet", "--size", "32", "--batch", "4",
             "--epochs", "400", "--nproc", "2", "--set", "device=cpu",
             "--out", "small/run"]  # fmt: skip
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", script, "-", *train],
        cwd=tmp_path, capture_output=True, text=True, timeout=150, check=False,
    )  # fmt: skip
    assert done.returncode == 4, done.stdout + done.stderr
    assert "disk full" in done.stderr
    assert done.stderr.startswith("local rank")
    assert "--resume" in done.stderr
    assert checkpoint.newest(RunDir(tmp_path / "kept" / "run"))[0]
