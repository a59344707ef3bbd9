"""``python -m shanty.task NAME``: the request as JSON on stdin, the answer as JSON on stdout.

Stdout carries one JSON object per line: ``{"progress": ...}`` any number of times, and at last
``{"answer": {...}}`` or ``{"error": {...}}`` (errors.to_dict). Whatever else is printed in the
process, also by C code, goes to stderr.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Sequence
from importlib import import_module
from typing import Any, TextIO

from shanty.errors import ShantyError, UsageError
from shanty.record.orphan import die_with_parent
from shanty.spec.codec import nearest

TASKS = ("predict_prepare", "preflight", "scan", "scan_images", "scan_labelled")


def main(argv: Sequence[str]) -> int:
    """Exit code 0, or that of the error which was answered; 4 with a traceback for a bug."""
    die_with_parent()
    with _taken_stdout() as out:
        try:
            line, code = {"answer": _run(argv, sys.stdin.buffer.read())}, 0
        except ShantyError as error:
            line, code = {"error": error.to_dict()}, error.exit_code
        except Exception:  # noqa: BLE001 - a bug: told apart from an error that was expected
            traceback.print_exc()
            return 4
        # ASCII only: a file's name may hold bytes that are no text.
        out.write(json.dumps(line) + "\n")
    return code


def _run(argv: Sequence[str], text: bytes) -> dict[str, Any]:
    name = argv[0] if argv else ""
    if name not in TASKS:
        raise UsageError(f"there is no task {name!r}", hint=nearest(name, list(TASKS)))
    try:
        request = json.loads(text)
    except ValueError as error:
        raise UsageError(f"the request is no JSON: {error}", hint="send one object") from error
    return import_module(f"shanty.task.{name}").run(request)


def _taken_stdout() -> TextIO:
    """The real stdout, for the answer; everybody else's is turned into stderr."""
    sys.stdout.flush()
    out = os.fdopen(os.dup(1), "w", encoding="ascii")
    os.dup2(2, 1)
    return out


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
