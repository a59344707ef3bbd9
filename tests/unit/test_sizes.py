"""tools/sizes.py, run as make check runs it, on small made-up trees and on ours."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[2]


def sizes(root: Path) -> tuple[int, str]:
    command = [sys.executable, str(REPO / "tools" / "sizes.py"), str(root)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    return done.returncode, done.stdout


def tree(root: Path, name: str, text: str) -> Path:
    path = root / "src" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    return root


def body(lines: int, docstring: int = 0) -> str:
    """A function of ``lines`` lines, with a docstring of ``docstring`` lines more."""
    quoted = ['    """' + "word\n" * (docstring - 1) + '    """'] if docstring else []
    return "\n".join(["def grow() -> int:", *quoted, "    x = 0", *["    x += 1"] * (lines - 2)])


def test_ours_is_within_the_limits() -> None:
    code, out = sizes(REPO)
    assert code == 0, out
    assert out.startswith("sizes: ")


def test_40_lines_pass_and_41_are_named(tmp_path: Path) -> None:
    short = "".join(f"def f{i}() -> None: ...\n" for i in range(40))
    assert sizes(tree(tmp_path, "a.py", short + body(40)))[0] == 0
    code, out = sizes(tree(tmp_path, "a.py", short + body(41)))
    assert code == 1
    assert "src/a.py:41 grow 41 lines (at most 40)\n" in out


def test_a_docstring_is_not_counted(tmp_path: Path) -> None:
    short = "".join(f"def f{i}() -> None: ...\n" for i in range(40))
    assert sizes(tree(tmp_path, "a.py", short + body(40, docstring=30)))[0] == 0


def test_median_and_usual_length_are_checked(tmp_path: Path) -> None:
    code, out = sizes(tree(tmp_path, "a.py", body(26) + "\n" + body(26)))
    assert code == 1
    assert "median function 26 lines (at most 8)" in out
    assert "only 0.0% of functions have <= 25 lines" in out


@pytest.mark.parametrize(
    ("signature", "code"),
    [("self, a, b, c, d, e, f", 0), ("a, b, c, *, d, e, f, g", 1), ("a, b, /, c, d, e, f, g", 1)],
)
def test_more_than_six_parameters_are_named(tmp_path: Path, signature: str, code: int) -> None:
    got, out = sizes(tree(tmp_path, "a.py", f"def f({signature}): ...\n"))
    assert got == code
    assert ("src/a.py:1 f 7 parameters (at most 6)" in out) == bool(code)


@pytest.mark.parametrize("name", ["utils.py", "common/x.py", "manager.py", "data_helpers.py"])
def test_a_name_that_says_nothing_is_found(tmp_path: Path, name: str) -> None:
    code, out = sizes(tree(tmp_path, name, "X = 1\n"))
    assert code == 1
    assert "says nothing" in out


def test_a_file_of_401_lines_is_named(tmp_path: Path) -> None:
    assert sizes(tree(tmp_path, "a.py", "X = 1\n" * 400))[0] == 0
    code, out = sizes(tree(tmp_path, "a.py", "X = 1\n" * 401))
    assert code == 1
    assert "src/a.py:1 a.py 401 lines (at most 400)" in out
