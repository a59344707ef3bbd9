"""Which rank am I? Answered from the environment that the launcher left, whoever it was."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from shanty.errors import RefusedError


@dataclass(frozen=True, kw_only=True)
class Place:
    """This process among the others. ``store`` is a file (one machine), ``env`` or ``tcp``."""

    rank: int
    world_size: int
    local_rank: int
    local_world_size: int
    node: str
    launcher: str
    store: str

    @property
    def one_machine(self) -> bool:
        """True when all ranks are on this machine."""
        return self.local_world_size == self.world_size


# launcher -> variables that hold rank, world size, local rank, local world size. In the order in
# which they are believed: an RANK exported by hand long ago must not win over mpirun's own.
_VARIABLES = {
    "torchrun": ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"),
    "mpirun": (
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_SIZE",
        "OMPI_COMM_WORLD_LOCAL_RANK",
        "OMPI_COMM_WORLD_LOCAL_SIZE",
    ),
    "mpiexec": ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
    "srun": ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_TASKS_PER_NODE"),
    "env": ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"),
}
_MARK = {"torchrun": "TORCHELASTIC_RUN_ID"}


def find_place(environ: Mapping[str, str], scratch: Path) -> Place:
    """Rank and world size as the launcher set them; without a launcher, one rank.

    Args:
        environ: the environment variables.
        scratch: a folder of the run, for the meeting file of ranks on one machine.

    Raises:
        RefusedError: ranks on several machines without a place to meet, or broken variables.
    """
    node = environ.get("SHANTY_NODE") or os.uname().nodename
    if "SHANTY_STORE" in environ:
        return _read(environ, "env", node, f"file:{environ['SHANTY_STORE']}", "shanty")
    for launcher in _VARIABLES:
        if _started_by(launcher, environ):
            place = _read(environ, launcher, node, "env", launcher)
            if launcher == "torchrun":
                return place
            return replace(place, store=_meeting(place, environ, scratch))
    return Place(
        rank=0, world_size=1, local_rank=0, local_world_size=1, node=node, launcher="none", store=""
    )


def _started_by(launcher: str, environ: Mapping[str, str]) -> bool:
    names = _VARIABLES[launcher]
    if launcher == "mpiexec" and names[2] not in environ and "SLURM_PROCID" in environ:
        return False  # srun --mpi=pmi2 sets PMI_RANK too, but says the local rank in its own words
    return names[0] in environ and names[1] in environ and _MARK.get(launcher, names[0]) in environ


def _read(environ: Mapping[str, str], kind: str, node: str, store: str, launcher: str) -> Place:
    names = _VARIABLES[kind]
    try:
        rank, size = int(environ[names[0]]), int(environ[names[1]])
        local = int(environ.get(names[2], rank))
        node_id = int(environ.get("SLURM_NODEID", "0")) if kind == "srun" else 0
        local_size = _tasks_per_node(environ.get(names[3], str(size)))[node_id]
    except (KeyError, ValueError, IndexError) as error:
        raise RefusedError(
            f"the {launcher} variables {', '.join(names)} do not give a rank: {error}",
            hint="start the worker with shanty train, torchrun, mpirun or srun",
            node=node,
        ) from error
    if not (0 <= rank < size and 0 <= local < local_size <= size):
        raise RefusedError(
            f"{launcher} says rank {rank} of {size}, local rank {local} of {local_size}",
            hint="unset RANK, WORLD_SIZE and LOCAL_RANK if you exported them by hand",
            node=node,
        )
    return Place(
        rank=rank,
        world_size=size,
        local_rank=local,
        local_world_size=local_size,
        node=node,
        launcher=launcher,
        store=store,
    )


def _tasks_per_node(text: str) -> list[int]:
    """Slurm writes ``3(x2),1`` for three, three and one; the others write one number."""
    counts: list[int] = []
    for part in text.split(","):
        tasks, _, times = part.partition("(x")
        counts += [int(tasks)] * int(times.rstrip(")") or 1)
    return counts


def _start_name(environ: Mapping[str, str]) -> str:
    """What tells this start of the launcher from every other one, alike for all its ranks."""
    for names in (("PMIX_NAMESPACE",), ("SLURM_JOB_ID", "SLURM_STEP_ID"), ("PMI_JOBID",)):
        if all(name in environ for name in names):
            text = "-".join(environ[name] for name in names)
            return "".join(c if c.isalnum() else "-" for c in text)
    # All local ranks are children of one launcher process.
    parent = os.getppid()
    stat = Path(f"/proc/{parent}/stat").read_text().rsplit(")", 1)[1].split()
    return f"{parent}-{stat[19]}"


def _meeting(place: Place, environ: Mapping[str, str], scratch: Path) -> str:
    """Where the ranks of ``place`` meet: a file on one machine, else MASTER_ADDR."""
    if place.one_machine:
        return f"file:{scratch / f'.meet-{place.launcher}-{_start_name(environ)}'}"
    if "MASTER_ADDR" in environ and "MASTER_PORT" in environ:
        return "tcp"
    raise RefusedError(
        f"{place.launcher} started ranks on several machines, and they have no place to meet",
        hint="export MASTER_ADDR=<address of rank 0's machine> and MASTER_PORT=<a free port>",
        node=place.node,
        rank=place.rank,
    )
