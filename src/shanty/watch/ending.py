"""The last lines of a run: what came out, where it lies, and what to type next. Pure."""

from __future__ import annotations

import shlex

from shanty import units
from shanty.report.summary import Summary
from shanty.watch import words

NAMED = 5


def training(summary: Summary, place: str, exit_code: int) -> list[str]:
    """What a training leaves behind. ``place`` is the run's folder as the person typed it."""
    lines = _best(summary, place) + _left_out(summary, place)
    lines += [f"run:         {place}"]
    if exit_code == 130:
        return [*lines, f"resume with: shanty train --resume {shlex.quote(place)}"]
    if exit_code or summary.last is None:
        return lines
    return [*lines, f"next:        shanty predict {shlex.quote(place)} IMAGES -o submission.csv"]


def _best(summary: Summary, place: str) -> list[str]:
    lines: list[str] = []
    result = summary.best_result
    if result is not None:
        number = f"epoch {result.epoch + 1}, {result.weights} weights"
        lines += words.wrap(f"best:        {words.metrics(result)}  ({number})", " " * 13)
    saved = summary.best or summary.last
    if saved is not None:
        name = "ema" if result is not None and result.weights == "ema" else "model"
        lines.append(f"checkpoint:  {place}/{saved.path}/{name}.safetensors")
    return lines


def _left_out(summary: Summary, place: str) -> list[str]:
    lines: list[str] = []
    if summary.bad:
        names = words.some([b.path for b in summary.bad], NAMED)
        count = units.plural(len(summary.bad), "image")
        tail = f"; all: {place}/events" if len(summary.bad) > NAMED else ""
        lines += words.wrap(f"left out:    {count}: {names}{tail}", " " * 13)
    if summary.skipped:
        count = units.plural(len(summary.skipped), "step")
        steps = words.some([str(s) for s in summary.skipped], NAMED)
        lines += words.wrap(f"skipped:     {count} with a loss that was not finite: {steps}")
    return lines


def evaluation(summary: Summary, place: str) -> list[str]:
    """What an evaluation measured."""
    if not summary.results:
        return [f"nothing was measured; see {place}/logs"]
    result = summary.results[-1]
    lines = [
        f"images:      {units.count(result.count)}",
        f"accuracy:    {units.percent(result.accuracy)}",
        f"top-5:       {units.percent(result.top5)}",
        f"log loss:    {result.log_loss:.4f}",
        f"macro F1:    {result.macro_f1:.4f}",
        f"weights:     {result.weights}",
    ]
    return lines + _left_out(summary, place)
