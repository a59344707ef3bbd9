"""The whole way on real photos where they lie beside the repository, else on made-up ones."""

from __future__ import annotations

import csv
import subprocess
import sys
from pathlib import Path

from crew import make_photos
from recipe import score

SHANTY = str(Path(sys.executable).with_name("shanty"))
SHARED = Path(__file__).resolve().parents[2].parent / "shared" / "data"
PHOTOS, WEIGHTS = SHARED / "tiny", SHARED / "weights" / "tf_efficientnet_lite0.safetensors"


def shanty(*words: str | Path, cwd: Path) -> str:
    done = subprocess.run(
        [SHANTY, *map(str, words)],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=170,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    return done.stdout


def labels_right(submission: Path, answers: Path) -> float:
    given, right = (
        {row[0]: row[1] for row in csv.reader(p.read_text("utf-8-sig").splitlines())}
        for p in (submission, answers)
    )
    assert list(given) == list(right)
    return sum(given[k] == right[k] for k in right) / len(right)


def test_photos_become_a_scored_submission(tmp_path: Path) -> None:
    if PHOTOS.exists() and WEIGHTS.exists():
        photos, answers = PHOTOS, PHOTOS / "test_answers.csv"
        options = ["--model", "tf_efficientnet_lite0", "--weights", WEIGHTS, "--size", "96"]
        recipe, least, test = "fine-tune", 0.5, PHOTOS / "test"
        template = ["--template", PHOTOS / "sample_submission.csv"]
    else:
        photos, test, answers = made_up(tmp_path)
        options = ["--model", "test_resnet", "--size", "32"]
        template = list[str | Path]()
        recipe, least = "from scratch", 0.9
    said = shanty("train", photos, *options, "--epochs", "8", "--nproc", "2", "--out", "run",
                  "--set", "device=cpu", "--batch", "16", cwd=tmp_path)  # fmt: skip
    assert recipe in said
    shanty("predict", "run", test, *template, "-o", "out.csv", "--device", "cpu", cwd=tmp_path)
    found = (
        score(tmp_path / "out.csv", answers)[0]
        if template
        else labels_right(tmp_path / "out.csv", answers)
    )
    assert found >= least


def made_up(folder: Path) -> tuple[Path, Path, Path]:
    """Photos of three colours, a flat test folder, and its answers."""
    photos = make_photos(folder / "photos", {"a": 40, "b": 40, "c": 40})
    named = make_photos(folder / "named", {"a": 8, "b": 8, "c": 8}, seed=5)
    lines = ["id,label"]
    (folder / "test").mkdir()
    for file in sorted(named.rglob("*.png")):
        lines.append(f"{file.parent.name}{file.stem},{file.parent.name}")
        file.rename(folder / "test" / f"{file.parent.name}{file.name}")
    (folder / "answers.csv").write_text("\n".join(lines) + "\n")
    return photos, folder / "test", folder / "answers.csv"
