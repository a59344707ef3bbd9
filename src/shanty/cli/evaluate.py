"""``shanty evaluate``: measure a run's checkpoint on labelled images."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from shanty.cli.folder import shown
from shanty.cli.images import found, measured, saved
from shanty.cli.launch import run_job
from shanty.cli.node import ask_local, gpus_for
from shanty.cli.order import made
from shanty.cli.ranks import choose_ranks
from shanty.cli.runs import finished_run, work_folder
from shanty.cli.speaker import Speaker
from shanty.cluster.plan import Job
from shanty.record.atomic import write_json
from shanty.record.rundir import RunDir
from shanty.report.summary import read_summary
from shanty.spec.codec import to_dict
from shanty.spec.run import EvaluateSpec
from shanty.watch.ending import evaluation

MODULE = "shanty.predict.evaluate_worker"
EXAMPLES = """\b
Examples:
  shanty evaluate runs/first photos/val
  shanty evaluate runs/first images --labels test.csv
  shanty evaluate runs/first photos/val --which last --nproc 3
"""


@dataclass(frozen=True, kw_only=True)
class EvaluateOptions:
    """Measure the checkpoint of a run on labelled images: accuracy, log loss, macro F1.

    The result is the same for any number of ranks.
    """

    run: Annotated[str, typer.Argument(help="Folder of a finished run.", show_default=False)]
    data: Annotated[str, typer.Argument(help="Labelled images.", show_default=False)]
    labels: Annotated[str | None, typer.Option(help="CSV file of path and label.")] = None
    which: Annotated[
        Literal["best", "last"], typer.Option(help="Which checkpoint is measured.")
    ] = "best"
    nproc: Annotated[str, typer.Option(help="Ranks: a number, or auto (one per GPU).")] = "auto"
    device: Annotated[
        Literal["auto", "cpu", "cuda"], typer.Option(help="auto: the GPU where there is one.")
    ] = "auto"
    quiet: Annotated[bool, typer.Option("--quiet", help="Print the result only.")] = False


def run(options: EvaluateOptions) -> int:
    """Measure, print the numbers; the exit code of the run."""
    home = finished_run(options.run, options.which)
    rundir = work_folder(home, "evaluation")
    with made(rundir):
        answer = ask_local("scan_labelled", _request(options, home, rundir))
        Speaker(quiet=options.quiet)(measured(found(answer)))
        ranks = choose_ranks(options.nproc, options.device, gpus_for())
        write_json(rundir.spec, to_dict(_spec(options, home, rundir)))
        job = Job(
            run_id=rundir.root.name,
            module=MODULE,
            spec=str(rundir.spec),
            rundir=str(rundir.root),
        )
        code = run_job(job, ranks, quiet=options.quiet)
    Speaker()(["stopped"] if code else evaluation(read_summary(rundir.events), shown(rundir.root)))
    return code


def _request(options: EvaluateOptions, home: RunDir, rundir: RunDir) -> dict[str, Any]:
    labels = Path(options.labels).expanduser().resolve() if options.labels else ""
    return {
        "root": str(Path(options.data).expanduser().resolve()),
        "classes": list(saved(home).classes),
        "labels": str(labels),
        "out": str(rundir.data),
    }


def _spec(options: EvaluateOptions, home: RunDir, rundir: RunDir) -> EvaluateSpec:
    return EvaluateSpec(
        run_id=rundir.root.name,
        rundir=str(rundir.root),
        run=str(home.root),
        data=str(rundir.data),
        which=options.which,
        device=options.device,
    )
