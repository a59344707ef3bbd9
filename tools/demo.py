"""The main job on real images, typed as a person would: ``python tools/demo.py [--data DIR]``.

Without ``--data`` it writes scikit-learn's 1,797 handwritten digits as image folders, with a
template and the answers of a small contest. Everything lies in one folder (``demo``), which it
removes and makes anew each time, but only when it made that folder itself.
"""

from __future__ import annotations

import argparse
import csv
import random
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

MARK = ".made-by-shanty-demo"
CLASSES = tuple("0123456789")
IMAGES = frozenset({".jpg", ".jpeg", ".png", ".webp", ".bmp", ".tif", ".tiff", ".gif"})


@dataclass(frozen=True, kw_only=True)
class Job:
    """What is trained on, measured and predicted, and the settings that fit these images."""

    data: Path
    labelled: Path
    images: Path
    template: Path | None
    answers: Path | None
    settings: tuple[str, ...]


def main() -> int:
    """Run the three commands; the exit code of the first that fails, else 0."""
    options = parser().parse_args()
    out: Path = options.out
    if not clear(out):
        print(f"{out} was not made by this demo, so it is left alone; choose another: --out DIR")
        return 3
    job = own_job(options.data) if options.data else digits_job(out / "digits")
    if options.only_write:
        return 0
    for command in commands(job, out, options.nproc):
        print(f"\n$ {shlex.join(command)}", flush=True)
        program = Path(sys.executable).parent / command[0]
        done = subprocess.run([program, *command[1:]], check=False)
        if done.returncode:
            return done.returncode
    report(job, out)
    return 0


def parser() -> argparse.ArgumentParser:
    """The demo's own few options."""
    made = argparse.ArgumentParser(description="Train, evaluate and predict on this machine.")
    made.add_argument(
        "--data", type=Path, help="your own images: class folders, or train/ and val/"
    )
    made.add_argument("--out", type=Path, default=Path("demo"), help="where everything is put")
    made.add_argument("--nproc", type=int, default=3, help="processes that train together")
    made.add_argument("--only-write", action="store_true", help="write the images and stop")
    return made


def clear(out: Path) -> bool:
    """Make ``out`` anew; False when there is something of another's in its place."""
    if out.exists() and not (out / MARK).is_file():
        return False
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    (out / MARK).write_text("tools/demo.py removes this folder when it runs again.\n", "utf-8")
    return True


def digits_job(folder: Path) -> Job:
    """Write the digits below ``folder``; three epochs at 32 px are enough for them."""
    write_digits(folder)
    return Job(
        data=folder / "train",
        labelled=folder / "test_by_class",
        images=folder / "test",
        template=folder / "sample_submission.csv",
        answers=folder / "test_answers.csv",
        # a mirrored digit is another sign, so no flips
        settings=("data.size=32", "augment.hflip=0"),
    )


def write_digits(folder: Path, seed: int = 0) -> None:
    """Four fifths as class folders in ``train``; the rest flat in ``test``, with its two tables.

    The test images also lie in class folders: measured there, they give the submission's score.
    """
    from PIL import Image  # noqa: PLC0415 - not needed with --data
    from sklearn.datasets import load_digits  # noqa: PLC0415

    pictures, targets = load_digits(return_X_y=True)
    order = list(range(len(targets)))
    random.Random(seed).shuffle(order)
    rows: list[tuple[str, str]] = []
    for place, index in enumerate(order, start=1):
        grey = Image.fromarray((pictures[index].reshape(8, 8) * (255 / 16)).astype("uint8"))
        image = grey.resize((32, 32), Image.Resampling.BICUBIC)
        label, name = CLASSES[targets[index]], f"DIGIT_{place:04d}"
        tested = place <= len(order) // 5
        rows += [(name, label)] if tested else []
        for part in (f"test_by_class/{label}", "test") if tested else (f"train/{label}",):
            (folder / part).mkdir(parents=True, exist_ok=True)
            image.save(folder / part / f"{name}.png")
    write_tables(folder, rows)


def write_tables(folder: Path, rows: list[tuple[str, str]]) -> None:
    """The contest's template (one column per class) and its answers."""
    blank = [[name, *["0"] * len(CLASSES)] for name, _ in rows]
    tables = {
        "sample_submission.csv": [["id", *CLASSES], *blank],
        "test_answers.csv": [["id", "label"], *map(list, rows)],
    }
    for name, table in tables.items():
        with (folder / name).open("w", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows(table)


def own_job(data: Path) -> Job:
    """A person's own folder; what lies beside the images (test, template, answers) is used."""
    template, answers = data / "sample_submission.csv", data / "test_answers.csv"
    return Job(
        data=data,
        labelled=data,
        images=own_images(data),
        template=template if template.is_file() and (data / "test").is_dir() else None,
        answers=answers if answers.is_file() else None,
        settings=("data.size=64",),
    )


def own_images(data: Path) -> Path:
    """The folder that is predicted: ``test``, or else the first class of the validation set."""
    if (data / "test").is_dir():
        return data / "test"
    for part in ("val", "valid", "validation", "train", "."):
        for folder in sorted((data / part).glob("*/")):
            if any(path.suffix.lower() in IMAGES for path in folder.iterdir()):
                return folder
    return data


def commands(job: Job, out: Path, nproc: int) -> list[list[str]]:
    """The three commands of the main job, as typed."""
    run, nproc_text = str(out / "run"), str(nproc)
    settings = [word for setting in job.settings for word in ("--set", setting)]
    train = ["--model", "resnet18", "--epochs", "3", "--batch", "64", "--nproc", nproc_text]
    template = ["--template", str(job.template)] if job.template else []
    result = [*template, "-o", str(out / "submission.csv")]
    return [
        ["shanty", "train", str(job.data), *train, "--out", run, *settings],
        ["shanty", "evaluate", run, str(job.labelled)],
        ["shanty", "predict", run, str(job.images), *result],
    ]


def report(job: Job, out: Path) -> None:
    """Where each result lies, and how many test images are right when the answers are known."""
    print("\nWhat was made:")
    for text, path in (
        ("the run: settings, logs, events", out / "run"),
        ("its checkpoints", out / "run" / "checkpoints"),
        ("its numbers", out / "run" / "summary.json"),
        ("the submission", out / "submission.csv"),
    ):
        print(f"  {text:<32} {path}{'' if path.exists() else '  (missing!)'}")
    if job.answers:
        right, total = score(out / "submission.csv", job.answers)
        print(f"  {'right, by ' + job.answers.name:<32} {right} of {total} ({right / total:.1%})")


def score(submission: Path, answers: Path) -> tuple[int, int]:
    """How many rows name the right class, and of how many; rows are matched by their id."""
    header, *rows = read_rows(submission)
    truth = dict(row[:2] for row in read_rows(answers)[1:])
    right = sum(truth[row[0]] == chosen(header, row) for row in rows)
    return right, len(truth)


def chosen(header: list[str], row: list[str]) -> str:
    """The class of a row: its label column, or the column with the highest probability."""
    if len(header) == 2:
        return row[1]
    return max(zip(header[1:], row[1:], strict=True), key=lambda pair: float(pair[1]))[0]


def read_rows(path: Path) -> list[list[str]]:
    """All rows of a CSV file, the header first."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        return list(csv.reader(file))


if __name__ == "__main__":
    sys.exit(main())
