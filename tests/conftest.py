"""Rules of the whole suite: ``--torch-free``, and in CI a skipped test is a failure."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from _pytest.terminal import TerminalReporter

from reach import needs_torch

HERE = Path(__file__).parent


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--torch-free",
        action="store_true",
        help="only the files of tests/unit that reach no torch, numpy or Pillow by import",
    )


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    if not config.getoption("--torch-free") or collection_path == HERE:
        return None
    in_unit = (HERE / "unit") in (collection_path, *collection_path.parents)
    is_test = collection_path.suffix == ".py" and collection_path.name.startswith("test_")
    return True if not in_unit or (is_test and needs_torch(collection_path)) else None


def pytest_terminal_summary(terminalreporter: TerminalReporter) -> None:
    skipped = terminalreporter.stats.get("skipped", [])
    if _in_ci() and skipped:
        terminalreporter.section("a skipped test is a failure in CI")
        terminalreporter.write_line("\n".join(report.nodeid for report in skipped))


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    skipped = isinstance(reporter, TerminalReporter) and reporter.stats.get("skipped")
    if _in_ci() and skipped and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _in_ci() -> bool:
    return os.environ.get("CI") == "true"
