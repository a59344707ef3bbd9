"""The command ``shanty``: builds the app, runs one command, turns errors into exit codes.

Exit codes: 0 ok, 2 wrong use, 3 refused before start, 4 failed while running, 130 interrupted.
Every other exception is a bug of ours: its trace goes to a crash file, whose path is printed.
"""

from __future__ import annotations

import io
import os
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import Annotated

import typer
from typer.main import get_command

from shanty import __version__
from shanty.cli import config, evaluate, lab, predict, train
from shanty.cli.options import command
from shanty.errors import ShantyError

_ABOUT = """Train one image classifier on all the small machines you have.

\b
  shanty train photos               train; photos holds one folder per class
  shanty evaluate runs/NAME photos  measure the result on labelled images
  shanty predict runs/NAME test -o submission.csv
"""


def main() -> None:
    """Entry of the command: never returns."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a name may hold what the locale cannot write
            stream.reconfigure(errors="backslashreplace")
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run one command line and give its exit code."""
    try:
        return dispatch(arguments)
    except ShantyError as error:
        _complain(str(error))
        return error.exit_code
    except KeyboardInterrupt:
        _complain("interrupted")
        return 130
    except BrokenPipeError:  # the reader of our output has gone: nobody is left to tell
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception:  # noqa: BLE001 - whatever is left is a bug of ours, and becomes a crash file
        _complain(f"shanty has a bug. What happened is written to {write_crash(arguments)}")
        return 4


def dispatch(arguments: list[str]) -> int:
    """Parse the command line, then do what it asks."""
    parser = get_command(build_app())
    try:
        job = parser.main(args=arguments or ["--help"], prog_name="shanty", standalone_mode=False)
    except Exception as error:  # noqa: BLE001 - _usage raises what is no mistake in the line
        _complain(_usage(error))
        return 2
    return job() if callable(job) else int(job or 0)


def build_app() -> typer.Typer:
    """The commands. What they import is light: no torch, and pydantic only for settings."""
    app = typer.Typer(help=_ABOUT, add_completion=False, rich_markup_mode=None)
    app.callback(invoke_without_command=True)(_global_options)
    app.command("train", epilog=train.EXAMPLES)(command(train.TrainOptions, train.run))
    app.command("evaluate", epilog=evaluate.EXAMPLES)(
        command(evaluate.EvaluateOptions, evaluate.run)
    )
    app.command("predict", epilog=predict.EXAMPLES)(command(predict.PredictOptions, predict.run))
    app.command("config", epilog=config.EXAMPLES)(command(config.ConfigOptions, config.run))
    app.add_typer(lab.build_app(), name="lab")
    return app


def _global_options(
    *, version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False
) -> None:
    if version:
        sys.stdout.write(f"shanty {__version__}\n")
        raise typer.Exit


def _usage(error: Exception) -> str:
    """One line for what the parser did not accept; anything else goes on as it is."""
    tell = getattr(error, "format_message", None)
    if tell is None:
        raise error
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "shanty"
    return f"{path}: {tell()}\n  fix: see {path} --help"


def _complain(text: str) -> None:
    sys.stderr.write(text + "\n")


def write_crash(arguments: list[str]) -> Path:
    """Write the current exception's trace to a new file in the temp folder; its path."""
    name = f"shanty-crash-{time.strftime('%Y%m%d-%H%M%S')}-"
    with tempfile.NamedTemporaryFile(
        "w", prefix=name, suffix=".txt", delete=False, encoding="utf-8", errors="backslashreplace"
    ) as file:
        file.write(f"shanty {__version__}, Python {sys.version}\narguments: {arguments}\n\n")
        file.write(traceback.format_exc())
    return Path(file.name)
