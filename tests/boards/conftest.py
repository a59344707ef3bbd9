"""``boards``: three rehearsal boards n1, n2, n3 and op, fresh for each test and gone after it."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from desk import Desk, within

from shanty.errors import RefusedError
from shanty.lab.needs import check_programs
from shanty.lab.state import labs

_NUMBERS = itertools.count()


@pytest.fixture(scope="session")
def root() -> None:
    """Skip where boards cannot be made; remove what an earlier suite left when it was killed."""
    if os.geteuid() != 0:
        pytest.skip("rehearsal boards need root")
    try:
        check_programs()
    except RefusedError as error:
        pytest.skip(str(error))
    for name in labs():
        pid = name.removeprefix("test-").split("-")[0]
        if name.startswith("test-") and pid.isdigit() and not Path("/proc", pid).exists():
            Desk(name=name).lab("down")


@pytest.fixture
def desk(root: None) -> Iterator[Desk]:  # noqa: ARG001 - what it asks for, not a value
    """An empty desk: no lab yet, and none afterwards."""
    one = Desk(name=f"test-{os.getpid()}-{next(_NUMBERS)}"[:16])
    yield one
    if one.folder.exists():
        one.ok("down")
    assert within(5, lambda: not one.leftovers()), one.leftovers()


@pytest.fixture
def boards(desk: Desk) -> Desk:
    """Three boards with 1-Gbit cables."""
    desk.ok("up", "3")
    return desk
