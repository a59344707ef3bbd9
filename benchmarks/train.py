"""shanty against plain DDP: same data, model, ranks, batch, recipe; in turn; measured from outside.

    python benchmarks/train.py --ranks 2 --model resnet18 --size 128 --epochs 2 --pairs 3

Each pair runs the plain script, then shanty, with the pair's number as seed. One more pair, of one
epoch, is run for the peak memory alone. Printed: medians, and the median of the pairs' ratios.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from measure import Ran, Step, adopt_orphans, run, steady_rate

REPO = Path(__file__).resolve().parents[1]
REAL_PHOTOS = REPO.parent / "shared" / "data" / "mid"
BIN = Path(sys.executable).parent
# Said to both, so that they differ in their machinery only.
RECIPE = {
    "lr": 2e-3,
    "weight-decay": 0.05,
    "smoothing": 0.1,
    "warmup": 0.5,
    "final-lr": 0.01,
    "min-area": 0.35,
    "crop": 0.95,
}
SETTINGS = {
    "lr": "optim.lr",
    "weight-decay": "optim.weight_decay",
    "smoothing": "optim.smoothing",
    "warmup": "schedule.warmup",
    "final-lr": "schedule.final_lr",
    "min-area": "augment.min_area",
    "crop": "data.crop",
}
FIXED = ("optim.name=adamw", "optim.clip=0", "optim.ema=0", "augment.jitter=0", "precision.amp=off")


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One run: images/s in steady state, seconds to the first step, accuracy, peak bytes."""

    rate: float
    first_step: float
    accuracy: float
    peak: int = 0


@dataclass(frozen=True, kw_only=True)
class Job:
    """One run that is to be measured."""

    options: argparse.Namespace
    epochs: int
    seed: int
    folder: Path
    sampled: bool = False


def main() -> int:
    """Measure all pairs and print the table."""
    options = parser().parse_args()
    adopt_orphans()
    with tempfile.TemporaryDirectory(prefix="shanty-benchmark-") as made:
        folder = Path(made)
        options.data = options.data or default_data(folder / "photos")
        pairs = [pair(options, folder, seed) for seed in range(options.pairs)]
        memory = memory_pair(options, folder)
    print(table(pairs, memory))
    if options.json:
        report = {
            "options": vars(options),
            "pairs": [[asdict(m) for m in p] for p in pairs],
            "memory": [asdict(m) for m in memory],
        }
        options.json.write_text(json.dumps(report, indent=1, default=str) + "\n", "utf-8")
    return 0


def parser() -> argparse.ArgumentParser:
    """What is compared."""
    made = argparse.ArgumentParser(description="Compare shanty train with plain DDP.")
    made.add_argument("--data", type=Path, help="a folder with train/ and val/ class folders")
    made.add_argument("--model", default="resnet18")
    made.add_argument("--weights", default="", help="a .safetensors file in timm's key names")
    made.add_argument("--size", type=int, default=128, help="pixels")
    made.add_argument("--ranks", type=int, default=2)
    made.add_argument("--epochs", type=int, default=2)
    made.add_argument("--batch", type=int, default=64, help="images per step over all ranks")
    made.add_argument("--pairs", type=int, default=3)
    made.add_argument("--lr", type=float, default=RECIPE["lr"], help="for both")
    made.add_argument("--skip", type=int, default=5, help="steps left out at an epoch's begin")
    made.add_argument(
        "--workers",
        type=int,
        help="loader processes per rank of the plain script (default: cores / ranks)",
    )
    made.add_argument("--json", type=Path, help="also write every number to this file")
    return made


def default_data(folder: Path) -> Path:
    """Real photos where they lie beside this repository, else photos written now."""
    if REAL_PHOTOS.is_dir():
        return REAL_PHOTOS
    from photos import write_photos  # noqa: PLC0415 - not needed with --data

    return write_photos(folder, 2000)


def pair(options: argparse.Namespace, folder: Path, seed: int) -> tuple[Measured, Measured]:
    """The plain script, then shanty, for speed and accuracy."""
    job = Job(options=options, epochs=options.epochs, seed=seed, folder=folder)
    return measured(plain, job), measured(ours, job)


def memory_pair(options: argparse.Namespace, folder: Path) -> tuple[Measured, Measured]:
    """The same for memory: one epoch, every process's memory read all the time."""
    job = Job(options=options, epochs=1, seed=0, folder=folder, sampled=True)
    return measured(plain, job), measured(ours, job)


def measured(way: Callable[[Job], Measured], job: Job) -> Measured:
    """Run one way and print its numbers as they come."""
    result = way(job)
    what = "memory" if job.sampled else f"seed {job.seed}"
    peak = f"  peak {result.peak / 2**20:.0f} MiB" if job.sampled else ""
    print(
        f"{way.__name__:<6} {what:<8} {result.rate:7.1f} img/s"
        f"  first step {result.first_step:5.1f} s  accuracy {result.accuracy:.3f}{peak}",
        flush=True,
    )
    return result


def plain(job: Job) -> Measured:
    """One run of plain_ddp.py under torchrun."""
    options = job.options
    cores = len(os.sched_getaffinity(0))
    workers = max(1, cores // options.ranks) if options.workers is None else options.workers
    flags = RECIPE | {
        "lr": options.lr,
        "size": options.size,
        "batch": options.batch,
        "epochs": job.epochs,
        "seed": job.seed,
        "workers": workers,
    }
    command = [
        str(BIN / "torchrun"), "--standalone", f"--nproc-per-node={options.ranks}",
        str(REPO / "benchmarks" / "plain_ddp.py"), str(options.data.resolve()),
        f"--model={options.model}", f"--weights={options.weights}",
        f"--out={job.folder / 'plain.pt'}", *(f"--{name}={value}" for name, value in flags.items()),
    ]  # fmt: skip
    ran = run(command, job.folder / "plain.log", sampled=job.sampled, cwd=job.folder)
    lines = [json.loads(line) for line in ran.output.splitlines() if line.startswith('{"t"')]
    steps = [
        Step(t=line["t"], epoch=line["epoch"], number=line["step"])
        for line in lines
        if line["kind"] == "step"
    ]
    accuracy = [line["accuracy"] for line in lines if line["kind"] == "validated"][-1]
    return result(job, ran, steps, accuracy, options.batch // options.ranks * options.ranks)


def ours(job: Job) -> Measured:
    """One run of shanty train; its numbers are read from the events it wrote."""
    options, out = job.options, job.folder / "run"
    shutil.rmtree(out, ignore_errors=True)
    recipe = RECIPE | {"lr": options.lr}
    settings = [f"{SETTINGS[name]}={value}" for name, value in recipe.items()]
    settings += [*FIXED, f"data.size={options.size}", f"seed={job.seed}"]
    settings += [f"model.weights={options.weights}"] if options.weights else []
    command = [
        str(BIN / "shanty"), "train", str(options.data.resolve()), "--model", options.model,
        "--epochs", str(job.epochs), "--batch", str(options.batch), "--nproc", str(options.ranks),
        "--out", str(out), *(word for setting in settings for word in ("--set", setting)),
    ]  # fmt: skip
    ran = run(command, job.folder / "ours.log", sampled=job.sampled, cwd=job.folder)
    text = (out / "events" / "rank-0000.jsonl").read_text("utf-8")
    lines = [json.loads(line) for line in text.splitlines()]
    steps = [
        Step(t=line["t"], epoch=line["epoch"], number=line["step"])
        for line in lines
        if line["kind"] == "StepDone"
    ]
    accuracy = [line["accuracy"] for line in lines if line["kind"] == "Validated"][-1]
    return result(job, ran, steps, accuracy, options.batch)


def result(job: Job, ran: Ran, steps: list[Step], accuracy: float, batch: int) -> Measured:
    """The numbers of one run."""
    return Measured(
        rate=steady_rate(steps, batch, job.options.skip),
        first_step=min(step.t for step in steps) - ran.began,
        accuracy=accuracy,
        peak=ran.peak,
    )


Pair = tuple[Measured, Measured]


def table(pairs: list[Pair], memory: Pair) -> str:
    """Medians of both ways and the median of the pairs' ratios, as a Markdown table."""
    rows = [
        row("images/s, steady state", pairs, lambda m: m.rate, "{:.1f}"),
        row("command to first step, s", pairs, lambda m: m.first_step, "{:.1f}"),
        row("peak memory, MiB", [memory], lambda m: m.peak / 2**20, "{:.0f}"),
        row("validation accuracy", pairs, lambda m: m.accuracy, "{:.3f}"),
    ]
    head = ["| | plain DDP | shanty | shanty / plain |", "|---|---:|---:|---:|"]
    return "\n".join(["", *head, *rows])


def row(name: str, pairs: list[Pair], of: Callable[[Measured], float], form: str) -> str:
    """One line of the table."""
    plain_median, ours_median = (statistics.median(of(p[i]) for p in pairs) for i in (0, 1))
    ratio = statistics.median(of(b) / of(a) if of(a) else float("nan") for a, b in pairs)
    return f"| {name} | {form.format(plain_median)} | {form.format(ours_median)} | {ratio:.2f} |"


if __name__ == "__main__":
    sys.exit(main())
