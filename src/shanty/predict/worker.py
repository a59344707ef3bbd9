"""One rank of a prediction: ``python -m shanty.predict.worker JOB/run.json``."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from shanty.comm.world import World, join
from shanty.data.decode import UndecodableError
from shanty.data.views import EvalView
from shanty.errors import FailedError, ShantyError
from shanty.predict.averaging import align
from shanty.predict.layout import Layout
from shanty.predict.load import Trained, load_run
from shanty.predict.render import fallback_row, render
from shanty.predict.target import write_submission
from shanty.record.atomic import read_json
from shanty.record.events import BadImage, Note, Phase
from shanty.record.rundir import RunDir
from shanty.spec.codec import from_dict
from shanty.spec.run import PredictSpec, read_spec
from shanty.train.feed import EvalReader, pick_threads
from shanty.train.infer import Asked, infer, my_share
from shanty.train.process import Process, entry, run_rank, stopped
from shanty.train.saving import raise_first


def main(spec_path: Path) -> int:
    """Run one rank to its end; returns the exit code."""
    spec = read_spec(PredictSpec, spec_path)
    return run_rank(RunDir(spec_path.resolve().parent), 0, partial(work, spec))


def work(spec: PredictSpec, process: Process) -> dict[str, Any]:
    """Predict on all ranks; rank 0 writes the submission.

    Raises:
        FailedError: after writing, when images could not be read: their rows are the fallback.
    """
    layout = from_dict(Layout, read_json(Path(spec.layout)))
    process.log.write(Phase(name="joining"))
    world = join(process.place, device=spec.device, timeout=600.0)
    process.log.write(Phase(name="building"))
    runs = [load_run(Path(folder), spec.which, world.device) for folder in spec.runs]
    process.log.write(Phase(name="predicting"))
    rows, bad = average_runs(runs, spec, layout, world, process)
    _refuse_vanished(bad, len(layout.paths))
    names = {layout.paths[i]: reason for i, reason in bad.items()}
    error = None
    if world.rank == 0:
        _tell(runs, names, process)
        try:
            _write(spec, layout, runs[0], rows, bad)
        except ShantyError as failed:
            error = failed.at(world.node, world.rank)
    raise_first(world, error)  # nobody ends before the file is written
    world.leave()
    if names:
        first = ", ".join(list(names)[:5]) + (" …" if len(names) > 5 else "")
        raise FailedError(
            f"{len(names)} of {len(layout.paths)} images could not be read: {first}",
            hint=f"{spec.out} is written; their rows hold the training class frequencies",
        )
    return {"rows": len(layout.paths), "out": spec.out}


def _write(
    spec: PredictSpec, layout: Layout, run: Trained, rows: torch.Tensor, bad: dict[int, str]
) -> None:
    prior = fallback_row(run.prior)
    filled = [prior if i in bad else row for i, row in enumerate(rows.tolist())]
    write_submission(Path(spec.out), render(layout, filled, run.classes), force=spec.force)


def _read_or_tell(read: EvalReader, index: int) -> NDArray[np.uint8]:
    """A file that the system does not give is one bad image here: every row needs an answer."""
    try:
        return read(index)
    except FailedError as error:
        raise UndecodableError(read.paths[index], error.what) from error


def _refuse_vanished(bad: dict[int, str], images: int) -> None:
    """Many files that cannot be read at all mean a lost disk, not bad images."""
    gone = [reason for reason in bad.values() if " cannot be read: " in reason]
    if len(gone) > max(1, images // 10):
        raise FailedError(
            f"{len(gone)} of {images} images cannot be read, the first: {gone[0]}",
            hint="check the disk or network share that holds them; nothing was written",
        )


def _tell(runs: list[Trained], bad: dict[str, str], process: Process) -> None:
    for run in runs:
        for note in run.notes:
            process.log.write(Note(text=note, level="warning"))
    for path, reason in bad.items():
        process.log.write(BadImage(path=path, reason=reason, use="predict"))


def average_runs(
    runs: list[Trained], spec: PredictSpec, layout: Layout, world: World, process: Process
) -> tuple[torch.Tensor, dict[int, str]]:
    """Mean probabilities, float64 [images, classes] in the first run's class order; bad images.

    Raises:
        RefusedError: the runs' classes differ.
    """
    total = torch.zeros(len(layout.paths), len(runs[0].classes), dtype=torch.float64)
    columns = [list(align(runs[0].classes, run.classes)) for run in runs]
    flips = (False, True) if spec.tta else (False,)
    bad: dict[int, str] = {}
    for run, column in zip(runs, columns, strict=True):
        for flip in flips:
            answer = _ask(run, spec, layout, world, process, flip=flip)
            bad |= answer[1]
            total += torch.softmax(answer[0].double(), dim=1)[:, column]
    return total / (len(runs) * len(flips)), dict(sorted(bad.items()))


def _ask(
    run: Trained, spec: PredictSpec, layout: Layout, world: World, process: Process, *, flip: bool
) -> tuple[torch.Tensor, dict[int, str]]:
    config = run.config
    view = EvalView(size=config.data.size, crop=config.data.crop, flip=flip)
    mine = my_share(len(layout.paths), config.validate.batch, world)
    asked = Asked(
        count=len(layout.paths),
        read=partial(_read_or_tell, EvalReader(spec.root, layout.paths, view)),
        size=config.data.size,
        batch=config.validate.batch,
        threads=pick_threads(world, spec.threads, None).evaluate,
        limit=config.data.wait_limit,
    )
    answer = infer(
        run.network, asked, world,
        on_progress=process.progress("predicting", mine), should_stop=process.stopping,
    )  # fmt: skip
    if answer is None:
        raise stopped()
    return answer.logits, answer.bad


if __name__ == "__main__":
    sys.exit(entry("shanty.predict.worker", main, sys.argv))
