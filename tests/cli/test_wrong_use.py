"""Wrong use: one clear line, exit 2 or 3, before any step, and nothing left behind."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from shanty.errors import ShantyError
from shanty.record.atomic import write_json

# The smallest PNG: one grey pixel.
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg=="
)


def shanty(cwd: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", "from shanty.cli.main import main; main()", *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
    )


def images(folder: Path, **counts: int) -> Path:
    """Class folders with so many images each."""
    for name, count in counts.items():
        (folder / name).mkdir(parents=True)
        for number in range(count):
            (folder / name / f"{number}.png").write_bytes(PNG)
    return folder


def refused(
    cwd: Path, *arguments: str, code: int, says: str, fix: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run, and check that it ends with this code and these words, in one to five lines."""
    before = sorted(p.name for p in cwd.iterdir())
    done = shanty(cwd, *arguments)
    assert done.returncode == code, done.stdout + done.stderr
    lines = done.stderr.strip().splitlines()
    assert 1 <= len(lines) <= 5
    assert says in done.stderr
    assert fix in lines[-1]
    assert "Traceback" not in done.stderr
    left = sorted(p.name for p in cwd.iterdir() if p.name != "runs")
    assert left == [name for name in before if name != "runs"]
    assert not list(cwd.glob("runs/*"))
    return done


def test_missing_folder(tmp_path: Path) -> None:
    images(tmp_path / "photos", a=2, b=2)
    refused(tmp_path, "train", "fotos", code=2, says="no folder", fix="did you mean 'photos'?")


def test_no_images(tmp_path: Path) -> None:
    (tmp_path / "photos/a").mkdir(parents=True)
    (tmp_path / "photos/a/x.heic").write_bytes(b"x")
    refused(tmp_path, "train", "photos", code=3, says="heic")


def test_one_class(tmp_path: Path) -> None:
    images(tmp_path / "photos", only=4)
    refused(tmp_path, "train", "photos", code=3, says="only")


def test_no_data_named(tmp_path: Path) -> None:
    refused(tmp_path, "train", code=2, says="DATA is missing", fix="shanty train FOLDER")


def test_typo_in_the_config(tmp_path: Path) -> None:
    images(tmp_path / "photos", a=2, b=2)
    (tmp_path / "run.toml").write_text("epochs = 2\n\n[optim]\nlrr = 1\n")
    refused(
        tmp_path,
        *("train", "photos", "--config", "run.toml"),
        code=2,
        says="run.toml line 4: unknown key optim.lrr",
        fix="did you mean 'optim.lr'?",
    )


def test_unknown_model(tmp_path: Path) -> None:
    images(tmp_path / "photos", a=2, b=2)
    refused(
        tmp_path,
        *("train", "photos", "--model", "resnet81"),
        code=3,
        says="timm has no model named 'resnet81'",
        fix="resnet18",
    )


def test_missing_weights(tmp_path: Path) -> None:
    refused(tmp_path, "train", ".", "--weights", "w.safetensors", code=2, says="no weights file at")


@pytest.mark.parametrize(
    ("options", "code", "says"),
    [
        (("--nproc", "9"), 3, "9 ranks but only"),
        (("--nproc", "3", "--batch", "2"), 3, "3 ranks share a global batch of 2"),
        (("--nproc", "0"), 2, "--nproc 0 is no number of ranks"),
        (("--nproc", "65"), 3, "--nproc 65 is more than 64"),
        (("--set", "device=cuda"), 3, "has no GPU"),
        (("--epochs", "0"), 2, "--epochs: epochs = 0 is out of range"),
        (("--epochs", "x"), 2, "shanty train: Invalid value for '--epochs'"),
        (("--epoch", "3"), 2, "--epochs"),
        (("--lr", "nan"), 2, "--lr: optim.lr = nan is not a finite number"),
        (("--set", "lr=1"), 2, "--set lr=1: unknown key lr"),
    ],
)
def test_options(tmp_path: Path, options: tuple[str, ...], code: int, says: str) -> None:
    images(tmp_path / "photos", a=4, b=4)
    refused(tmp_path, "train", "photos", *options, code=code, says=says)


def test_a_run_exists(tmp_path: Path) -> None:
    images(tmp_path / "photos", a=4, b=4)
    made = shanty(tmp_path, "train", "photos", "--out", "first", "--prepare")
    assert made.returncode == 0, made.stderr
    refused(
        tmp_path,
        *("train", "photos", "--out", "first"),
        code=2,
        says="a run exists in first",
        fix="shanty train --resume first",
    )


def test_a_folder_in_use(tmp_path: Path) -> None:
    images(tmp_path / "photos", a=4, b=4)
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes/mine.txt").write_text("x")
    (tmp_path / "file").write_text("x")
    refused(tmp_path, "train", "photos", "--out", "notes", code=2, says="notes is not empty")
    refused(tmp_path, "train", "photos", "--out", "file", code=2, says="file is a file")
    inside = "photos/run"
    refused(
        tmp_path, "train", "photos", "--out", inside, code=2, says="would lie inside the images"
    )


def test_no_write_permission(tmp_path: Path) -> None:
    images(tmp_path / "photos", a=4, b=4)
    refused(tmp_path, "train", "photos", "--out", "/proc/run", code=2, says="/proc/run")


def test_dry_run_writes_and_starts_nothing(tmp_path: Path) -> None:
    images(tmp_path / "photos", a=20, b=20)
    arguments = ("train", "photos", "--nproc", "3", "--batch", "16", "--dry-run")
    done = shanty(tmp_path, *arguments)
    assert (done.returncode, done.stderr) == (0, "")
    assert "16 images per step over 3 ranks: 6 + 5 + 5" in done.stdout
    assert "-m torch.distributed.run --standalone --nproc-per-node 3" in done.stdout
    assert sorted(p.name for p in tmp_path.iterdir()) == ["photos"]


def test_prepare_writes_the_order_and_prints_the_lines(tmp_path: Path) -> None:
    images(tmp_path / "photos", a=20, b=20)
    arguments = ("train", "photos", "--nproc", "2", "--lr", "0.5", "--out", "first", "--prepare")
    done = shanty(tmp_path, *arguments)
    assert (done.returncode, done.stderr) == (0, "")
    spec = json.loads((tmp_path / "first/run.json").read_text("utf-8"))
    data = json.loads((tmp_path / "first/data.json").read_text("utf-8"))
    assert spec["config"]["optim"]["lr"] == 0.5
    assert spec["attempts"][0]["world_size"] == 2
    assert data["classes"] == ["a", "b"]
    assert f"mpirun -n 2 {sys.executable} -m shanty.train.worker" in done.stdout
    assert not list((tmp_path / "first/events").iterdir())


def prepared(folder: Path) -> Path:
    """A run that looks as if it had saved a checkpoint."""
    images(folder / "photos", a=10, b=10)
    done = shanty(folder, "train", "photos", "--out", "first", "--nproc", "2", "--prepare")
    assert done.returncode == 0, done.stderr
    write_json(folder / "first/last.json", {"checkpoint": "checkpoints/step-00000001"})
    (folder / "first/checkpoints/step-00000001").mkdir()
    return folder


def test_resume_of_nothing(tmp_path: Path) -> None:
    refused(tmp_path, "train", "--resume", "none", code=2, says="no run in none")


def test_resume_without_a_checkpoint(tmp_path: Path) -> None:
    prepared(tmp_path)
    (tmp_path / "first/checkpoints/step-00000001").rmdir()
    refused(tmp_path, "train", "--resume", "first", code=3, says="no complete checkpoint")


def test_resume_with_other_settings(tmp_path: Path) -> None:
    prepared(tmp_path)
    refused(
        tmp_path,
        *("train", "--resume", "first", "--lr", "1", "--set", "batch=3", "--out", "x"),
        code=2,
        says="--lr, --set batch=3, --out cannot change in a resumed run",
    )


def test_resume_with_other_images(tmp_path: Path) -> None:
    prepared(tmp_path)
    (tmp_path / "photos/a/0.png").unlink()
    (tmp_path / "photos/b/new.png").write_bytes(PNG)
    done = refused(
        tmp_path, "train", "--resume", "first", code=3, says="1 missing ('a/0.png'); 1 new"
    )
    assert "'b/new.png'" in done.stderr


def test_resume_while_it_runs(tmp_path: Path) -> None:
    from shanty.record.process import Owner, identify, write_owner

    prepared(tmp_path)
    me = identify(os.getpid())
    assert me is not None
    owner = Owner(agent=me, node="local", generation=0)
    write_owner(tmp_path / "first/agent.json", owner)
    told = f"still going on, its agent has pid {os.getpid()}"
    refused(tmp_path, "train", "--resume", "first", code=3, says=told)


def test_resume_tells_the_old_and_the_new_number_of_ranks(tmp_path: Path) -> None:
    prepared(tmp_path)
    spec = (tmp_path / "first/run.json").read_bytes()
    done = shanty(tmp_path, "train", "--resume", "first", "--nproc", "3", "--dry-run")
    assert done.returncode == 0, done.stderr
    assert "resuming first: 2 ranks before, 3 now; global batch 64 and lr 0.003" in done.stdout
    assert (tmp_path / "first/run.json").read_bytes() == spec


def test_resume_finds_images_that_were_moved(tmp_path: Path) -> None:
    prepared(tmp_path)
    (tmp_path / "photos").rename(tmp_path / "elsewhere")
    (tmp_path / "first").rename(tmp_path / "renamed")
    options = ("--resume", "renamed", "--set", "checkpoint.keep=7", "--prepare")
    done = shanty(tmp_path, "train", "elsewhere", *options)
    assert done.returncode == 0, done.stderr
    spec = json.loads((tmp_path / "renamed/run.json").read_text("utf-8"))
    data = json.loads((tmp_path / "renamed/data.json").read_text("utf-8"))
    assert data["root"] == str(tmp_path / "elsewhere")
    assert spec["rundir"] == str(tmp_path / "renamed")
    assert spec["config"]["checkpoint"]["keep"] == 7
    assert [a["generation"] for a in spec["attempts"]] == [0, 1]
    assert spec["resume"] is True


@pytest.mark.parametrize("command", ["evaluate", "predict"])
def test_a_run_that_is_none(tmp_path: Path, command: str) -> None:
    images(tmp_path / "photos", a=1)
    refused(tmp_path, command, "none", "photos", code=2, says="there is no folder none")
    refused(tmp_path, command, "photos", "photos", code=2, says="photos holds no best checkpoint")


def test_predict_without_images(tmp_path: Path) -> None:
    refused(tmp_path, "predict", "run", code=2, says="needs a run and a folder of images")


def test_an_unknown_command(tmp_path: Path) -> None:
    refused(tmp_path, "predikt", code=2, says="No such command 'predikt'")


def broken(code: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Our own program with a bug put into it."""
    start = f"from shanty.cli import main as m\n{code}\nimport sys; sys.exit(m.run(['config']))"
    return subprocess.run(
        [sys.executable, "-c", start],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "TMPDIR": str(cwd)},
    )


def test_a_bug_becomes_a_crash_file_and_exit_4(tmp_path: Path) -> None:
    done = broken("m.dispatch = lambda arguments: 1 // 0", tmp_path)
    assert done.returncode == 4
    (crash,) = tmp_path.glob("shanty-crash-*.txt")
    assert done.stderr.strip().endswith(str(crash))
    text = crash.read_text("utf-8")
    assert "ZeroDivisionError" in text
    assert "arguments: ['config']" in text


def test_a_reader_that_goes_away_is_no_bug(tmp_path: Path) -> None:
    command = f"{sys.executable} -c 'from shanty.cli.main import main; main()' config | head -n 1"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert not list(tmp_path.glob("shanty-crash-*"))


@pytest.mark.parametrize("locale", ["C", "POSIX", "C.UTF-8"])
def test_names_survive_any_locale(tmp_path: Path, locale: str) -> None:
    images(tmp_path / "사진", 고양이=2, 개=2)
    program = "from shanty.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program, "train", "사진", "--dry-run"],
        capture_output=True,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "LC_ALL": locale, "PYTHONIOENCODING": "ascii"},
    )
    assert done.returncode == 0, done.stderr
    assert "고양이".encode("ascii", "backslashreplace") in done.stdout


def test_ctrl_c_is_exit_130(tmp_path: Path) -> None:
    done = broken("def stop(_): raise KeyboardInterrupt\nm.dispatch = stop", tmp_path)
    assert (done.returncode, done.stderr) == (130, "interrupted\n")


@pytest.mark.parametrize(("name", "code"), [("UsageError", 2), ("RefusedError", 3)])
def test_an_error_is_its_own_exit_code(tmp_path: Path, name: str, code: int) -> None:
    put = f"import shanty.errors as e\ndef stop(_): raise e.{name}('what', hint='do')\n"
    done = broken(put + "m.dispatch = stop", tmp_path)
    assert (done.returncode, done.stderr) == (code, "what\n  fix: do\n")
    assert any(kind.__name__ == name for kind in ShantyError.__subclasses__())
