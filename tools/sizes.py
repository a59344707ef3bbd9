"""Size limits of the house, checked with Python's own parser: ``python tools/sizes.py [ROOT]``.

Prints one line per offender, ``path:line name N lines``, and exits 1 if there is any.
A function is counted from its ``def`` to its last line, without its docstring.
"""

from __future__ import annotations

import ast
import statistics
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FOLDERS = ("src", "benchmarks", "tools")
BANNED = frozenset({"utils", "util", "common", "helpers", "helper", "manager", "base"})
MOST_LINES, MOST_FILE_LINES, MOST_PARAMETERS = 40, 400, 6
MEDIAN_LINES, USUAL_LINES, USUAL_PART = 8, 25, 0.95

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, kw_only=True)
class Function:
    """One function or method: where it begins, how long it is, what it asks for."""

    path: Path
    line: int
    name: str
    lines: int
    parameters: int


def main(root: Path) -> int:
    """Print every offender under ``root``; 1 if there is one."""
    findings = list(check(root))
    print(*findings, sep="\n", end="\n" if findings else "")
    print(f"sizes: {len(findings)} findings" if findings else summary(root))
    return 1 if findings else 0


def check(root: Path) -> Iterator[str]:
    """One line per offender: names, files, functions, and the totals over ``src``."""
    for path in sources(root, FOLDERS):
        shown = path.relative_to(root)
        yield from (f"{shown}:1 {why}" for why in file_faults(path, shown))
        for function in functions(path):
            yield from (f"{shown}:{function.line} {why}" for why in function_faults(function))
    yield from total_faults(lengths(root))


def sources(root: Path, folders: tuple[str, ...]) -> list[Path]:
    """Every Python file below ``folders``, sorted."""
    return sorted(path for folder in folders for path in (root / folder).rglob("*.py"))


def file_faults(path: Path, shown: Path) -> Iterator[str]:
    """A banned name in the path, or too many lines in the file."""
    for part in shown.with_suffix("").parts:
        if BANNED & set(part.lower().split("_")):
            yield f"{part} says nothing: name it after what it does"
    count = len(path.read_text("utf-8").splitlines())
    if count > MOST_FILE_LINES:
        yield f"{shown.name} {count} lines (at most {MOST_FILE_LINES})"


def function_faults(function: Function) -> Iterator[str]:
    """A function that is too long or asks for too much."""
    if function.lines > MOST_LINES:
        yield f"{function.name} {function.lines} lines (at most {MOST_LINES})"
    if function.parameters > MOST_PARAMETERS:
        yield f"{function.name} {function.parameters} parameters (at most {MOST_PARAMETERS})"


def total_faults(counts: list[int]) -> Iterator[str]:
    """The median and the usual length over all functions."""
    if not counts:
        return
    median = statistics.median(counts)
    part = sum(count <= USUAL_LINES for count in counts) / len(counts)
    if median > MEDIAN_LINES:
        yield f"src:1 median function {median:g} lines (at most {MEDIAN_LINES})"
    if part < USUAL_PART:
        yield f"src:1 only {part:.1%} of functions have <= {USUAL_LINES} lines ({USUAL_PART:.0%})"


def lengths(root: Path) -> list[int]:
    """Lines of every function in ``src``."""
    return [function.lines for path in sources(root, ("src",)) for function in functions(path)]


def summary(root: Path) -> str:
    """One line that says how the source stands."""
    counts = lengths(root)
    if not counts:
        return "sizes: no functions"
    median, most = statistics.median(counts), max(counts)
    return f"sizes: {len(counts)} functions in src, median {median:g} lines, longest {most}"


def functions(path: Path) -> Iterator[Function]:
    """Every function and method of a file, nested ones too."""
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, FunctionNode):
            yield Function(
                path=path,
                line=node.lineno,
                name=node.name,
                lines=function_lines(node),
                parameters=parameters(node),
            )


def function_lines(node: FunctionNode) -> int:
    """Lines from ``def`` to the end, without the docstring."""
    total = (node.end_lineno or node.lineno) - node.lineno + 1
    first = node.body[0]
    if ast.get_docstring(node, clean=False) is None:
        return total
    return total - ((first.end_lineno or first.lineno) - first.lineno + 1)


def parameters(node: FunctionNode) -> int:
    """Named parameters, without a leading ``self`` or ``cls``."""
    names = [a.arg for a in (*node.args.posonlyargs, *node.args.args)]
    leading = names[:1] in (["self"], ["cls"])
    return len(names) + len(node.args.kwonlyargs) - leading


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parents[1]).resolve()))
