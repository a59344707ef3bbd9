"""A command's options are one frozen dataclass; this makes of it what Typer calls.

Typer only parses: a command answers with a job, and main runs it outside of Typer, so that errors
and Ctrl-C become exit codes in one single place.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import MISSING, Field, fields
from functools import partial
from typing import Any, TypeVar, get_type_hints

T = TypeVar("T")
Job = Callable[[], int]


def command(kind: type[T], run: Callable[[T], int]) -> Callable[..., Job]:
    """A callback for Typer: its parameters are the fields of ``kind``, its answer is a job.

    Args:
        kind: a dataclass whose fields are ``Annotated`` with typer.Option or typer.Argument.
        run: does the work and gives the exit code.
    """
    hints = get_type_hints(kind, include_extras=True)

    def collect(**given: Any) -> Job:
        return partial(run, kind(**given))

    shape = inspect.Signature([_parameter(f, hints[f.name]) for f in fields(kind)])  # type: ignore[arg-type]
    collect.__dict__["__signature__"] = shape
    collect.__annotations__ = {f: hints[f] for f in shape.parameters}
    collect.__doc__ = kind.__doc__
    return collect


def _parameter(field: Field[Any], hint: Any) -> inspect.Parameter:
    default = inspect.Parameter.empty if field.default is MISSING else field.default
    keyword = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(field.name, keyword, default=default, annotation=hint)
