"""How good the defaults are: fine-tune on real photos with several seeds, score on the test set.

    python benchmarks/recipe.py --weights tf_efficientnet_lite0.safetensors

Runs what a person would type, with default settings but model, size, epochs and seed:
``shanty train``, ``shanty predict --template``; then compares the submission with the answers.
"""

from __future__ import annotations

import argparse
import csv
import math
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import mean

REPO = Path(__file__).resolve().parents[1]
REAL_PHOTOS = REPO.parent / "shared" / "data" / "mid"
SHANTY = str(Path(sys.executable).with_name("shanty"))


def score(submission: Path, answers: Path) -> tuple[float, float]:
    """Accuracy and mean log loss of a submission of probabilities."""
    with answers.open(encoding="utf-8-sig", newline="") as file:
        right = {row["ID"]: row["label"] for row in csv.DictReader(file)}
    hits: list[bool] = []
    losses: list[float] = []
    with submission.open(encoding="utf-8-sig", newline="") as file:
        for row in csv.DictReader(file):
            label = right[row.pop("ID")]
            chances = {name: float(value) for name, value in row.items()}
            hits.append(max(chances, key=lambda name: chances[name]) == label)
            losses.append(-math.log(max(chances[label], 1e-15)))
    return mean(hits), mean(losses)


def run_seed(options: argparse.Namespace, seed: int, folder: Path) -> tuple[float, float]:
    """Train and predict once; accuracy and log loss on the test set."""
    run, out = folder / f"run{seed}", folder / f"submission{seed}.csv"
    train = [SHANTY, "train", options.data, "--model", options.model, "--size", options.size]
    train += ["--epochs", options.epochs, "--seed", seed, "--nproc", options.nproc, "--out", run]
    train += ["--weights", options.weights] if options.weights else []
    predict = [SHANTY, "predict", run, options.data / "test", "-o", out]
    predict += ["--template", options.data / "sample_submission.csv"]
    for command in (train, predict):
        subprocess.run([*map(str, command), "--quiet"], check=True, stdin=subprocess.DEVNULL)
    return score(out, options.data / "test_answers.csv")


def main() -> int:
    """Print one line per seed and the means."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=REAL_PHOTOS)
    parser.add_argument("--weights", default="")
    parser.add_argument("--model", default="tf_efficientnet_lite0")
    parser.add_argument("--size", type=int, default=128)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--nproc", default="auto")
    options = parser.parse_args()
    found = []
    with tempfile.TemporaryDirectory(prefix="recipe-") as folder:
        for seed in range(options.seeds):
            start = time.monotonic()
            accuracy, loss = run_seed(options, seed, Path(folder))
            found.append((accuracy, loss))
            took = time.monotonic() - start
            print(f"seed {seed}: accuracy {accuracy:.4f}, log loss {loss:.4f}, {took:.0f} s")
    print(f"mean:   accuracy {mean(f[0] for f in found):.4f}, ", end="")
    print(f"log loss {mean(f[1] for f in found):.4f} over {len(found)} seeds")
    return 0


if __name__ == "__main__":
    sys.exit(main())
