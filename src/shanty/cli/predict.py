"""``shanty predict``: a trained run, or several, and a folder of images become a submission."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from shanty import units
from shanty.cli.launch import run_job
from shanty.cli.node import ask_local, gpus_for
from shanty.cli.order import made
from shanty.cli.ranks import choose_ranks
from shanty.cli.runs import finished_run, work_folder
from shanty.cli.speaker import Speaker
from shanty.cluster.plan import Job
from shanty.errors import UsageError
from shanty.record.atomic import write_json
from shanty.record.rundir import RunDir
from shanty.spec.codec import to_dict
from shanty.spec.run import PredictSpec
from shanty.watch.words import some

MODULE = "shanty.predict.worker"
EXAMPLES = """\b
Examples:
  shanty predict runs/first test -o submission.csv
  shanty predict runs/first test --template sample_submission.csv -o submission.csv
  shanty predict runs/a runs/b runs/c test --tta -o submission.csv
"""


@dataclass(frozen=True, kw_only=True)
class PredictOptions:
    """Predict a folder of images and write a file that a contest accepts.

    With --template its rows, order, header and columns are kept; without one the file has the
    columns id,label. Several runs are averaged. The bytes are the same for any number of ranks.
    """

    places: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN... IMAGES", help="One run or several, then a folder or table of images."
        ),
    ]
    out: Annotated[str, typer.Option("--out", "-o", help="The file to write.")] = "submission.csv"
    template: Annotated[str | None, typer.Option(help="The contest's sample file.")] = None
    tta: Annotated[bool, typer.Option("--tta", help="Add a left-right flipped view.")] = False
    which: Annotated[Literal["best", "last"], typer.Option(help="Which checkpoint is used.")] = (
        "best"
    )
    nproc: Annotated[str, typer.Option(help="Ranks: a number, or auto (one per GPU).")] = "auto"
    device: Annotated[
        Literal["auto", "cpu", "cuda"], typer.Option(help="auto: the GPU where there is one.")
    ] = "auto"
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")] = False
    quiet: Annotated[bool, typer.Option("--quiet", help="Print errors only.")] = False


def run(options: PredictOptions) -> int:
    """Predict and write the file; 0, 130 when stopped.

    Raises:
        FailedError: images that could not be read; the file is written all the same.
    """
    if len(options.places) < 2:
        raise UsageError(
            "predict needs a run and a folder of images", hint="shanty predict RUN IMAGES"
        )
    say = Speaker(quiet=options.quiet)
    runs = [finished_run(name, options.which) for name in options.places[:-1]]
    rundir = work_folder(runs[0], "prediction")
    with made(rundir):
        answer = ask_local("predict_prepare", _request(options, runs, rundir))
        say(_found(answer))
        spec = _spec(options, runs, rundir, str(answer["root"]))
        write_json(rundir.spec, to_dict(spec))
        ranks = choose_ranks(options.nproc, options.device, gpus_for())
        job = Job(run_id=spec.run_id, module=MODULE, spec=str(rundir.spec), rundir=spec.rundir)
        code = run_job(job, ranks, quiet=options.quiet)
    rows = units.plural(int(answer["rows"]), "row")
    say(["stopped, nothing was written"] if code else [f"wrote {options.out}: {rows}"])
    return code


def _request(options: PredictOptions, runs: list[RunDir], rundir: RunDir) -> dict[str, Any]:
    return {
        "images": _absolute(options.places[-1]),
        "template": _absolute(options.template),
        "out": _absolute(options.out),
        "runs": [str(r.root) for r in runs],
        "which": options.which,
        "force": options.force,
        "layout": str(_layout(rundir)),
    }


def _spec(options: PredictOptions, runs: list[RunDir], rundir: RunDir, root: str) -> PredictSpec:
    return PredictSpec(
        run_id=rundir.root.name,
        rundir=str(rundir.root),
        runs=tuple(str(r.root) for r in runs),
        root=root,
        layout=str(_layout(rundir)),
        out=_absolute(options.out),
        force=options.force,
        which=options.which,
        tta=options.tta,
        device=options.device,
    )


def _layout(rundir: RunDir) -> Path:
    return rundir.root / "layout.json"


def _absolute(name: str | None) -> str:
    return str(Path(name).expanduser().resolve()) if name else ""


def _found(answer: dict[str, Any]) -> list[str]:
    """What will be predicted."""
    kinds = units.plural(int(answer["classes"]), "class", "classes")
    lines = [f"images: {answer['root']}, {units.plural(int(answer['rows']), 'row')}, {kinds}"]
    lines += [f"  note: {note}" for note in answer["notes"]]
    bad = [str(path) for path, _ in answer["bad"]]
    return lines + ([f"  no images: {some(bad, 5)}"] if bad else [])
