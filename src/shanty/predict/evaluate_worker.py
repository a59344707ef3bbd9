"""One rank of an evaluation: ``python -m shanty.predict.evaluate_worker JOB/run.json``."""

from __future__ import annotations

import sys
import time
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from shanty.comm.world import join
from shanty.predict.load import load_run
from shanty.record.atomic import read_json
from shanty.record.events import BadImage, Note, Phase, Validated
from shanty.record.rundir import RunDir
from shanty.scan.dataset import DataSet
from shanty.spec.codec import from_dict
from shanty.spec.run import EvaluateSpec, read_spec
from shanty.train.evaluate import Exam, Watch, evaluate
from shanty.train.feed import pick_threads
from shanty.train.infer import my_share
from shanty.train.process import Process, entry, run_rank, stopped


def main(spec_path: Path) -> int:
    """Run one rank to its end; returns the exit code."""
    spec = read_spec(EvaluateSpec, spec_path)
    return run_rank(RunDir(spec_path.resolve().parent), 0, partial(work, spec))


def work(spec: EvaluateSpec, process: Process) -> dict[str, Any]:
    """Measure the run on the data; returns the metrics and the unusable images."""
    data = from_dict(DataSet, read_json(Path(spec.data)))
    process.log.write(Phase(name="joining"))
    world = join(process.place, device=spec.device, timeout=600.0)
    process.log.write(Phase(name="building"))
    run = load_run(Path(spec.run), spec.which, world.device)
    if world.rank == 0:
        for note in run.notes:
            process.log.write(Note(text=note, level="warning"))
    threads = pick_threads(world, spec.threads, None)
    exam = Exam(root=data.root, samples=data.val, config=run.config, threads=threads.evaluate)
    total = my_share(len(data.val), run.config.validate.batch, world)
    watch = Watch(on_progress=process.progress("validating", total), should_stop=process.stopping)
    process.log.write(Phase(name="validating"))
    start = time.monotonic()
    measured = evaluate(run.network, exam, world, watch)
    if measured is None:
        raise stopped()
    facts = asdict(measured.metrics)
    if world.rank == 0:
        for path, reason in measured.bad.items():
            process.log.write(BadImage(path=path, reason=reason, use="validate"))
        took = time.monotonic() - start
        process.log.write(
            Validated(epoch=-1, weights=run.name, seconds=took, bad=len(measured.bad), **facts)
        )
    world.leave()
    return facts | {"bad": measured.bad}


if __name__ == "__main__":
    sys.exit(entry("shanty.predict.evaluate_worker", main, sys.argv))
