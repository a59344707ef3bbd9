"""World: the ranks of one run as this process sees them, and the few things they exchange."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from shanty.comm.place import Place
from shanty.errors import RefusedError

# What a rank says when another one is gone: a consequence, never the cause.
_LOST_PEER = (
    "Connection closed by peer",
    "Connection reset by peer",
    "Broken pipe",
    "Timed out waiting",
    "Application timeout caused pair closure",
    "Connection refused",
    "connectFullMesh failed",
    "NCCL communicator was aborted",
    "Socket Timeout",
    "Wait timeout",
)


def is_lost_peer(error: BaseException) -> bool:
    """True for an error that only says that another rank cannot be reached."""
    return isinstance(error, RuntimeError) and any(mark in str(error) for mark in _LOST_PEER)


def is_out_of_memory(error: BaseException) -> bool:
    """True for a device that is out of memory, also in its disguise on Jetson (pytorch#185240)."""
    kind = getattr(torch, "OutOfMemoryError", torch.cuda.OutOfMemoryError)  # since torch 2.5
    text = str(error)
    return isinstance(error, kind) or ("INTERNAL ASSERT FAILED" in text and "NVML" in text)


@dataclass(frozen=True, kw_only=True)
class World:
    """Rank, size and device, with the control group for small exchanges (CPU, gloo).

    Gradients travel in the default group; everything else in ``control``, so that neither can
    overtake the other. With one rank there is no group at all.
    """

    place: Place
    device: torch.device
    generation: int
    backend: str
    control: Any = None

    @property
    def rank(self) -> int:
        """This process's number, from 0."""
        return self.place.rank

    @property
    def world_size(self) -> int:
        """Number of ranks."""
        return self.place.world_size

    @property
    def node(self) -> str:
        """Name of this machine."""
        return self.place.node

    @property
    def is_writer(self) -> bool:
        """True on the one rank per node that writes files."""
        return self.place.local_rank == 0

    def gather(self, row: Sequence[float]) -> list[list[float]]:
        """Every rank's ``row`` (equal lengths), in rank order, on all ranks. float64."""
        mine = torch.tensor(list(row), dtype=torch.float64)
        return [part.tolist() for part in self.gather_tensor(mine)]

    def gather_tensor(self, mine: torch.Tensor) -> list[torch.Tensor]:
        """Every rank's CPU tensor (equal shapes and types), in rank order, on all ranks."""
        if self.world_size == 1:
            return [mine]
        parts = [torch.empty_like(mine) for _ in range(self.world_size)]
        dist.all_gather(parts, mine.contiguous(), group=self.control)
        return parts

    def gather_rows(self, mine: torch.Tensor) -> torch.Tensor:
        """All ranks' rows (any number each, equal width), one rank's after the other."""
        counts = [int(c[0]) for c in self.gather([mine.shape[0]])]
        padded = mine.new_zeros((max(counts), *mine.shape[1:]))
        padded[: mine.shape[0]] = mine
        parts = self.gather_tensor(padded)
        return torch.cat([part[:n] for part, n in zip(parts, counts, strict=True)])

    def gather_bytes(self, mine: bytes) -> list[bytes]:
        """Every rank's bytes (any length), in rank order."""
        lengths = [int(n[0]) for n in self.gather([len(mine)])]
        rows = torch.zeros(max(1, *lengths), dtype=torch.uint8)
        rows[: len(mine)] = torch.frombuffer(bytearray(mine or b"\0"), dtype=torch.uint8)[
            : len(mine)
        ]
        parts = self.gather_tensor(rows)
        return [bytes(p[:n].tolist()) for p, n in zip(parts, lengths, strict=True)]

    def leave(self) -> None:
        """End the groups. Call once, at the end of every normal run."""
        if self.world_size > 1 and dist.is_initialized():
            self.gather([0.0])  # nobody takes the meeting place away from under another one
            dist.destroy_process_group()
            if self.rank == 0 and self.place.store.startswith("file:"):
                Path(self.place.store[5:]).unlink(missing_ok=True)


def join(
    place: Place, *, device: str, backend: str = "auto", timeout: float, generation: int = 0
) -> World:
    """Join the other ranks and pin this process's device.

    Args:
        place: where this process stands.
        device: ``auto``, ``cpu`` or ``cuda``.
        backend: ``auto``, ``gloo`` or ``nccl``.
        timeout: seconds that one exchange may take.
        generation: how many times the run was started before.

    Raises:
        RefusedError: no such device, fewer GPUs than local ranks, no usable backend.
    """
    where = pick_device(place, device)
    name = pick_backend(place, where, backend)
    if place.world_size == 1:
        return World(place=place, device=where, generation=generation, backend="none")
    if place.one_machine:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")  # gloo then listens on loopback only
    limit = timedelta(seconds=timeout)
    both = "cpu:gloo,cuda:nccl" if name == "nccl" else "gloo"
    if place.store == "env":
        dist.init_process_group(both, timeout=limit)
    else:
        dist.init_process_group(
            both, store=_store(place, limit), rank=place.rank, world_size=place.world_size,
            timeout=limit,
        )  # fmt: skip
    control = dist.new_group(backend="gloo", timeout=limit)
    return World(place=place, device=where, generation=generation, backend=name, control=control)


def pick_device(place: Place, asked: str) -> torch.device:
    """The device of this rank: its own GPU, or the CPU.

    Raises:
        RefusedError: a GPU is asked for and there is none, or more local ranks than GPUs.
    """
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if asked == "cpu" or (asked == "auto" and count == 0):
        return torch.device("cpu")
    if count == 0:
        raise RefusedError(
            "a GPU is asked for, but torch finds none",
            hint="use --set device=cpu, or check the driver with nvidia-smi",
            node=place.node,
        )
    if place.local_world_size > count:
        raise RefusedError(
            f"{place.local_world_size} ranks, but only {count} GPU(s)",
            hint=f"use --nproc {count}, or --set device=cpu",
            node=place.node,
        )
    torch.cuda.set_device(place.local_rank)
    return torch.device("cuda", place.local_rank)


def pick_backend(place: Place, device: torch.device, asked: str) -> str:
    """NCCL for GPUs where torch has it, else gloo.

    Raises:
        RefusedError: this torch has no distributed part, or gloo would corrupt GPU gradients.
    """
    if place.world_size == 1:
        return "none"
    if not dist.is_available():
        raise RefusedError(
            "this torch was built without torch.distributed",
            hint="use --nproc 1, or install a torch wheel that has it",
            node=place.node,
        )
    if device.type == "cuda" and asked != "gloo" and dist.is_nccl_available():
        return "nccl"
    version = tuple(int(p) for p in torch.__version__.split("+")[0].split(".")[:2])
    if device.type == "cuda" and version < (2, 11):
        # pytorch#155714: DDP's reducer with gloo may read CUDA gradients too early.
        raise RefusedError(
            f"gloo with GPU gradients is not safe in torch {torch.__version__}",
            hint="use --nproc 1, or torch 2.11 or newer, or a torch with NCCL",
            node=place.node,
        )
    return "gloo"


def _listen(place: Place, host: str, port: int) -> socket.socket:
    """A listener on one address only; torch's own server would take every address.

    Raises:
        RefusedError: the address means all of them, is not ours, or the port is taken.
    """
    try:
        listener = socket.create_server((host, port))
    except OSError as error:
        raise RefusedError(
            f"cannot listen on MASTER_ADDR {host}, MASTER_PORT {port}: {error.strerror}",
            hint="export an address of this machine and a free port, the same for all ranks",
            node=place.node,
        ) from error
    if listener.getsockname()[0] in ("0.0.0.0", "::"):  # noqa: S104 - this is what is refused
        listener.close()
        raise RefusedError(
            f"MASTER_ADDR {host!r} means every address of this machine",
            hint="export the one address that the other machines reach",
            node=place.node,
        )
    return listener


def _store(place: Place, limit: timedelta) -> Any:
    if place.store.startswith("file:"):
        path = Path(place.store[5:])
        store = dist.FileStore(str(path), place.world_size)
        store.set_timeout(limit)
        return store
    host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    if place.rank:
        return dist.TCPStore(host, port, place.world_size, is_master=False, timeout=limit)
    listener = _listen(place, host, port)
    return dist.TCPStore(
        host, port, place.world_size, is_master=True, timeout=limit, use_libuv=False,
        master_listen_fd=listener.detach(),
    )  # fmt: skip
