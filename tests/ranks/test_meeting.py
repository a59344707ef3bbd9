"""Ranks on several machines meet at MASTER_ADDR: on that address, and on no other."""

from __future__ import annotations

import os
import socket
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import pytest

from crew import start_ranks
from shanty.comm.place import Place
from shanty.comm.world import join
from shanty.errors import RefusedError


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def listening_on(port: int) -> set[str]:
    """Addresses (hex) on which anybody on this machine listens at ``port``."""
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            address, _, number = fields[1].rpartition(":")
            if fields[3] == "0A" and int(number, 16) == port:
                found.add(address)
    return found


def meet(place: Place, host: str, port: int) -> tuple[list[list[float]], set[str]]:
    address = {"MASTER_ADDR": host, "MASTER_PORT": str(port)}
    with patch.dict(os.environ, address):
        world = join(replace(place, store="tcp"), device="cpu", timeout=30)
    table, found = world.gather([float(place.rank)]), listening_on(port)
    world.leave()
    return table, found


def test_ranks_meet_on_the_one_address_that_was_given() -> None:
    for table, found in start_ranks(2, meet, "127.0.0.1", free_port()):
        assert table == [[0.0], [1.0]]
        assert found == {"0100007F"}


@pytest.mark.parametrize("host", ["0.0.0.0", ""])  # noqa: S104 - what must be refused
def test_a_wildcard_address_is_refused(host: str) -> None:
    with pytest.raises(RefusedError, match="means every address"):
        start_ranks(2, meet, host, free_port())


def test_a_taken_port_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = int(other.getsockname()[1])
        with pytest.raises(RefusedError, match=f"MASTER_PORT {port}: Address already in use"):
            start_ranks(2, meet, "127.0.0.1", port)
