"""The sentences of the live view: pure, one value in, one line out, at most 80 columns."""

from __future__ import annotations

import math
import textwrap

from shanty import units
from shanty.record.events import BadImage, Banner, EpochDone, StepSkipped, Validated
from shanty.watch.pace import Pace

WIDTH = 80


def wrap(text: str, indent: str = "  ") -> list[str]:
    """Lines of at most 80 columns; a path is never broken, it may stand out."""
    return textwrap.wrap(
        text, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def banner(body: Banner) -> list[str]:
    """Label and text in two columns."""
    widest = max((len(label) for label, _ in body.lines), default=0)
    lines: list[str] = []
    for label, text in body.lines:
        lines += wrap(f"{label:<{widest}}  {text}", " " * (widest + 2))
    return lines


def epoch(done: EpochDone, result: Validated | None, pace: tuple[int, float], *, best: bool) -> str:
    """``epoch 3/10  loss 0.812  acc 84.7 %  log loss 0.480  f1 0.830  212 img/s  0:41``.

    ``pace``: epochs of the whole run, and images per second of this epoch (0: unknown). Where the
    line would be too wide, the rate goes first, then F1: both are in the run's events.
    """
    epochs, rate = pace
    parts = [f"epoch {done.epoch + 1:>{len(str(epochs))}}/{epochs}", f"loss {done.loss:.3f}"]
    f1 = f"f1 {result.macro_f1:.3f}" if result else ""
    speed = units.rate(rate) if rate else ""
    if result is not None:
        parts += [f"acc {units.percent(result.accuracy)}", f"log loss {result.log_loss:.3f}"]
    parts += [part for part in (f1, speed, clock(done.seconds), "best" if best else "") if part]
    for optional in (speed, f1):
        if optional and len("  ".join(parts)) > WIDTH:
            parts.remove(optional)
    return "  ".join(parts)


def metrics(result: Validated) -> str:
    """``acc 84.7 %  log loss 0.480  f1 0.830``."""
    return (
        f"acc {units.percent(result.accuracy)}  log loss {result.log_loss:.3f}"
        f"  f1 {result.macro_f1:.3f}"
    )


def clock(seconds: float) -> str:
    """``0:41`` or ``1:02:03``: for columns that line up, unlike units.duration."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def progress(pace: Pace) -> str:
    """``epoch 3/10  step 12/48  loss 0.812  212 img/s  left 4:05``."""
    number, step = divmod(max(0, pace.done - 1), max(1, pace.per_epoch))
    parts = [f"epoch {number + 1}/{pace.epochs}", f"step {step + 1}/{pace.per_epoch}"]
    if math.isfinite(pace.loss):
        parts.append(f"loss {pace.loss:.3f}")
    if pace.images_per_second:
        parts.append(units.rate(pace.images_per_second))
    left = pace.seconds_left()
    return "  ".join(parts + ([f"left {clock(left)}"] if left is not None else []))


def bad_image(body: BadImage) -> list[str]:
    """An image that was left out, and why."""
    use = f" ({body.use})" if body.use else ""
    return wrap(f"bad image left out{use}: {body.path}: {body.reason}")


def skipped(step: int, body: StepSkipped) -> list[str]:
    """A step that all ranks rolled back, and which images may be the reason."""
    where = ", ".join(body.where) or "some rank"
    files = f"; images: {some(list(body.files), 3)}" if body.files else ""
    return wrap(f"step {step} skipped on all ranks: not finite on {where}{files}")


def some(names: list[str], most: int) -> str:
    """The first names and how many more there are."""
    shown = ", ".join(names[:most])
    more = len(names) - most
    return f"{shown} … and {more} more" if more > 0 else shown
