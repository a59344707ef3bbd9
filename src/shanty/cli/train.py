"""``shanty train``: settings, images, checks, plan, run, result."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any

import typer

from shanty.cli.folder import remove, shown
from shanty.cli.launch import Ran, failure_of, launch
from shanty.cli.order import Order, made, plan_of
from shanty.cli.preview import by_hand, derived, opening
from shanty.cli.resume import continued, write
from shanty.cli.speaker import Speaker
from shanty.cli.start import Request, draft, fresh
from shanty.record.atomic import write_json
from shanty.record.events import BadImage
from shanty.report.summary import numbers, read_summary
from shanty.watch.ending import training

EXAMPLES = """\b
Examples:
  shanty train photos
  shanty train photos --model resnet50 --weights resnet50.safetensors --epochs 6
  shanty train photos --nproc 3 --batch 96 --out runs/first --dry-run
  shanty train --resume runs/first
"""


@dataclass(frozen=True, kw_only=True)
class TrainOptions:
    """Train an image classifier on a folder with one folder per class.

    DATA may also hold train/ and val/, or be the image root of a table: --labels FILE.csv.
    Settings come from, weakest first: defaults, --config, these options, --set.
    """

    data: Annotated[
        str | None, typer.Argument(help="Folder of class folders.", show_default=False)
    ] = None
    model: Annotated[str | None, typer.Option(help="Any timm model name.  [resnet18]")] = None
    weights: Annotated[
        str | None, typer.Option(help="Pretrained weights, a .safetensors file.")
    ] = None
    epochs: Annotated[int | None, typer.Option(help="Times every image is seen.  [10]")] = None
    batch: Annotated[int | None, typer.Option(help="GLOBAL batch over all ranks.  [64]")] = None
    lr: Annotated[float | None, typer.Option(help="Peak learning rate.  [from the batch]")] = None
    size: Annotated[int | None, typer.Option(help="Side of the images in pixels.  [224]")] = None
    seed: Annotated[int | None, typer.Option(help="Seed of everything random.  [0]")] = None
    labels: Annotated[str | None, typer.Option(help="CSV file of path and label.")] = None
    keep: Annotated[int | None, typer.Option(help="Newest checkpoints kept.  [1]")] = None
    nproc: Annotated[str | None, typer.Option(help="Ranks: a number, or auto (one per GPU).")] = (
        None
    )
    out: Annotated[str | None, typer.Option(help="The run's folder.  [runs/MODEL-TIME]")] = None
    config: Annotated[str | None, typer.Option(help="Settings file; see shanty config.")] = None
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Any setting; repeatable."),
    ] = None
    resume: Annotated[str | None, typer.Option(metavar="DIR", help="Continue the run in DIR.")] = (
        None
    )
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan, do nothing.")] = False
    prepare: Annotated[
        bool, typer.Option("--prepare", help="Write the run folder, print how to start it.")
    ] = False
    quiet: Annotated[bool, typer.Option("--quiet", help="Print errors only.")] = False

    def request(self) -> Request:
        """The options without those that only say how to show it."""
        return Request(
            data=self.data,
            out=self.out,
            nproc=self.nproc,
            config=self.config,
            settings=self._settings(),
            sets=tuple(self.set_ or ()),
        )

    def _settings(self) -> dict[str, Any]:
        """The options that are settings, by dotted key; None where not given."""
        return {
            "model.name": self.model,
            "model.weights": self.weights,
            "data.labels": self.labels,
            "data.size": self.size,
            "optim.lr": self.lr,
            "epochs": self.epochs,
            "batch": self.batch,
            "seed": self.seed,
            "checkpoint.keep": self.keep,
        }


def run(options: TrainOptions) -> int:
    """Do what the options ask; the run's exit code."""
    request = options.request()
    if options.resume:
        order = continued(request, options.resume)
        return _show(order) if options.dry_run else _go(order, options)
    new = draft(request)
    if options.dry_run:
        return _show(fresh(new, None))
    with made(new.rundir):
        return _go(fresh(new, new.rundir.data), options)


def _show(order: Order) -> int:
    """``--dry-run``: the plan, and nothing else."""
    say = Speaker()
    say(opening(order, shown(order.rundir.root)))
    say([*derived(order), "", *by_hand(plan_of(order))])
    return 0


def _go(order: Order, options: TrainOptions) -> int:
    """Write the order; then print how to start it, or start it and stay with it."""
    say, place = Speaker(quiet=options.quiet), shown(order.rundir.root)
    say(opening(order, place))
    write(order)
    plan = plan_of(order)
    if options.prepare:
        Speaker()([f"prepared {place}; start it with one of:", "", *by_hand(plan)])
        return 0
    ran = launch(plan, place, quiet=options.quiet)
    say(_ending(order, ran, place))
    return ran.outcome.exit_code


def _ending(order: Order, ran: Ran, place: str) -> list[str]:
    """What the run leaves behind.

    Raises:
        ShantyError: what ended it, when that was neither its end nor the person.
    """
    bad = tuple(BadImage(path=p, reason=r, use="scan") for p, r in order.images.bad)
    summary = read_summary(order.rundir.events)
    summary = replace(summary, bad=(*bad, *summary.bad))
    code = ran.outcome.exit_code
    if summary.last is not None:
        write_json(order.rundir.summary, numbers(summary, code))
    error = failure_of(ran.outcome)
    if error is not None:
        raise error
    if code == 130 and summary.last is None:
        gone = not order.spec.resume and not ran.trained and remove(order.rundir)
        return ["stopped before anything was saved" + (f"; {place} is removed" if gone else "")]
    return ["", *training(summary, place, code)]
