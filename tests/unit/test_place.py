"""Which rank am I: the variables of every launcher, in the order in which they are believed."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from shanty.comm.place import Place, find_place
from shanty.errors import RefusedError

SCRATCH = Path("/run-folder")
MEET = {"MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "2900"}


def by_hand(rank: int, world: int, local: int, local_world: int) -> dict[str, str]:
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
    return dict(zip(names, map(str, (rank, world, local, local_world)), strict=True))


def torchrun(rank: int, world: int, local: int, local_world: int) -> dict[str, str]:
    return by_hand(rank, world, local, local_world) | MEET | {"TORCHELASTIC_RUN_ID": "none"}


def mpirun(rank: int, world: int, local: int, local_world: int) -> dict[str, str]:
    names = ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE")
    values = map(str, (rank, world, local, local_world))
    return {f"OMPI_COMM_WORLD_{n}": v for n, v in zip(names, values, strict=True)}


def mpiexec(rank: int, world: int, local: int, local_world: int) -> dict[str, str]:
    names = ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS")
    return dict(zip(names, map(str, (rank, world, local, local_world)), strict=True))


def srun(rank: int, world: int, local: int, tasks: object, node: int = 0) -> dict[str, str]:
    return {
        "SLURM_PROCID": str(rank),
        "SLURM_NTASKS": str(world),
        "SLURM_LOCALID": str(local),
        "SLURM_TASKS_PER_NODE": str(tasks),
        "SLURM_NODEID": str(node),
    }


LAUNCHERS = {"torchrun": torchrun, "mpirun": mpirun, "mpiexec": mpiexec, "srun": srun,
             "env": by_hand}  # fmt: skip


def numbers(place: Place) -> tuple[int, int, int, int]:
    return place.rank, place.world_size, place.local_rank, place.local_world_size


def test_without_a_launcher_there_is_one_rank() -> None:
    place = find_place({"PATH": "/bin"}, SCRATCH)
    assert numbers(place) == (0, 1, 0, 1)
    assert (place.launcher, place.store, place.node) == ("none", "", os.uname().nodename)
    assert place.one_machine


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_each_launcher_says_which_rank_this_is(launcher: str) -> None:
    place = find_place(LAUNCHERS[launcher](1, 3, 1, 3), SCRATCH)
    assert numbers(place) == (1, 3, 1, 3)
    assert place.launcher == launcher
    assert place.one_machine


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_each_launcher_on_several_machines(launcher: str) -> None:
    place = find_place(LAUNCHERS[launcher](3, 4, 1, 2) | MEET, SCRATCH)
    assert numbers(place) == (3, 4, 1, 2)
    assert not place.one_machine
    assert place.store == ("env" if launcher == "torchrun" else "tcp")


@pytest.mark.parametrize("launcher", ["mpirun", "mpiexec", "srun", "env"])
@pytest.mark.parametrize("given", [{}, {"MASTER_ADDR": "10.0.0.1"}, {"MASTER_PORT": "2900"}])
def test_several_machines_without_a_place_to_meet_are_refused(
    launcher: str, given: dict[str, str]
) -> None:
    with pytest.raises(RefusedError, match="no place to meet") as caught:
        find_place(LAUNCHERS[launcher](3, 4, 1, 2) | given | {"SHANTY_NODE": "n2"}, SCRATCH)
    assert "MASTER_ADDR" in caught.value.hint
    assert "MASTER_PORT" in caught.value.hint
    assert (caught.value.node, caught.value.rank) == ("n2", 3)


def test_the_agent_is_believed_first_and_names_store_and_node() -> None:
    said = {"SHANTY_STORE": "/r/store", "SHANTY_NODE": "n1"} | by_hand(1, 2, 1, 2)
    place = find_place(said | mpirun(0, 9, 0, 9) | torchrun(1, 2, 1, 2), SCRATCH)
    assert numbers(place) == (1, 2, 1, 2)
    assert (place.launcher, place.store, place.node) == ("shanty", "file:/r/store", "n1")


@pytest.mark.parametrize("launcher", ["mpirun", "mpiexec", "srun"])
def test_a_launcher_wins_over_a_rank_exported_by_hand_long_ago(launcher: str) -> None:
    place = find_place(by_hand(0, 1, 0, 1) | LAUNCHERS[launcher](2, 3, 2, 3), SCRATCH)
    assert numbers(place) == (2, 3, 2, 3)
    assert place.launcher == launcher


def test_torchrun_wins_inside_an_allocation_and_mpi_wins_over_slurm() -> None:
    batch = srun(0, 8, 0, 8)
    assert find_place(batch | torchrun(1, 2, 1, 2), SCRATCH).launcher == "torchrun"
    assert find_place(batch | mpirun(1, 2, 1, 2), SCRATCH).launcher == "mpirun"
    assert find_place(batch | mpiexec(1, 2, 1, 2), SCRATCH).launcher == "mpiexec"


def test_srun_with_pmi_says_the_local_rank_in_its_own_words() -> None:
    said = srun(3, 4, 1, "2(x2)", node=1) | {"PMI_RANK": "3", "PMI_SIZE": "4"} | MEET
    place = find_place(said, SCRATCH)
    assert place.launcher == "srun"
    assert numbers(place) == (3, 4, 1, 2)


@pytest.mark.parametrize(
    ("tasks", "node", "local_world"),
    [("3", 0, 3), ("2(x2),1", 0, 2), ("2(x2),1", 1, 2), ("2(x2),1", 2, 1), ("1,4", 1, 4)],
)
def test_slurm_lists_the_tasks_of_every_node(tasks: str, node: int, local_world: int) -> None:
    world = {"3": 3}.get(tasks, 5)
    place = find_place(srun(world - 1, world, local_world - 1, tasks, node) | MEET, SCRATCH)
    assert place.local_world_size == local_world


@pytest.mark.parametrize(
    "broken",
    [
        torchrun(0, 1, 0, 1) | {"RANK": "x"},
        mpirun(0, 1, 0, 1) | {"OMPI_COMM_WORLD_SIZE": ""},
        mpiexec(0, 1, 0, 1) | {"MPI_LOCALRANKID": "1.5"},
        srun(0, 3, 0, "many"),
        srun(0, 3, 0, "2(xy),1"),
        srun(4, 5, 0, "2(x2),1", node=7),
    ],
)
def test_variables_that_are_no_numbers_are_refused_by_name(broken: dict[str, str]) -> None:
    with pytest.raises(RefusedError, match="do not give a rank") as caught:
        find_place(broken, SCRATCH)
    assert caught.value.exit_code == 3
    assert any(name in caught.value.what for name in broken)
    assert caught.value.node


@pytest.mark.parametrize("given", [{}, {"RANK": "0"}, {"WORLD_SIZE": "2"}])
def test_an_agent_that_gave_a_store_and_no_rank_is_refused(given: dict[str, str]) -> None:
    with pytest.raises(RefusedError, match="shanty variables RANK, WORLD_SIZE"):
        find_place({"SHANTY_STORE": "/r/store"} | given, SCRATCH)


@pytest.mark.parametrize(
    "values", [(3, 3, 0, 3), (-1, 3, 0, 3), (0, 0, 0, 0), (1, 3, 3, 3), (1, 3, -1, 3), (1, 3, 1, 4)]
)
@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_numbers_that_cannot_be_are_refused(
    launcher: str, values: tuple[int, int, int, int]
) -> None:
    with pytest.raises(RefusedError, match=f"says rank {values[0]} of {values[1]}") as caught:
        find_place(LAUNCHERS[launcher](*values), SCRATCH)
    assert "unset RANK" in caught.value.hint


def test_without_local_numbers_all_ranks_are_taken_to_be_here() -> None:
    place = find_place({"RANK": "2", "WORLD_SIZE": "3"}, SCRATCH)
    assert numbers(place) == (2, 3, 2, 3)


MEETING = """
import sys
from pathlib import Path
from shanty.comm.place import find_place
names = ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE")
print(find_place(dict(zip(names, sys.argv[1:3])), Path("/run-folder")).store)
"""


def test_ranks_of_one_start_meet_at_one_file_and_never_at_that_of_another_start() -> None:
    """A launcher is a process here as well: ``sh`` starts two ranks, then another ``sh`` does."""
    script = '"$0" -c "$1" 0 2; "$0" -c "$1" 1 2'
    starts = [
        subprocess.run(
            ["sh", "-c", script, sys.executable, MEETING],
            capture_output=True, text=True, check=True, timeout=60,
        ).stdout.split()
        for _ in range(2)
    ]  # fmt: skip
    for stores in starts:
        assert len(stores) == 2
        assert stores[0] == stores[1]
        assert stores[0].startswith("file:/run-folder/.meet-mpirun-")
    assert starts[0] != starts[1]


def test_one_machine_means_that_all_ranks_are_local() -> None:
    place = find_place(mpirun(0, 2, 0, 2), SCRATCH)
    assert place.one_machine
    assert not replace(place, local_world_size=1).one_machine
