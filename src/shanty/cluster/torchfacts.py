"""What is known of a node's torch: how it was built, and what of it works when tried."""

from __future__ import annotations

from dataclasses import dataclass

from shanty.cluster.facts import answer_in, read


@dataclass(frozen=True, kw_only=True)
class Device:
    """A CUDA device as torch sees it; ``works``: it really added two numbers."""

    name: str = ""
    capability: str | None = None
    memory: int | None = None
    integrated: bool | None = None
    works: bool | None = None
    said: str = ""


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One rank reduced a tensor of ``device`` (cpu, cuda) over ``backend`` (gloo, nccl).

    ``cause`` names a known trouble (``probe.torch_program.CAUSES``), ``said`` is its own text,
    ``end`` is empty, ``error``, ``time`` or ``signal N``. ``patched``: an NCCL made for Jetson.
    """

    backend: str = ""
    device: str = "cpu"
    works: bool = False
    patched: bool = False
    end: str = ""
    cause: str | None = None
    said: str = ""
    seconds: float | None = None


@dataclass(frozen=True, kw_only=True)
class Import:
    """Whether a package that needs torch imports."""

    name: str = ""
    works: bool = False
    version: str | None = None
    cause: str | None = None
    said: str = ""


@dataclass(frozen=True, kw_only=True)
class TorchFacts:
    """``version`` is None when torch does not import; ``cause`` and ``said`` tell why.

    ``cuda`` is the version it was built for, ``arches`` the GPUs it has code for (``sm_87``),
    ``distributed`` False when torch.distributed is hollow; ``nccl``, ``gloo`` and ``mpi`` say
    what was compiled in, ``trials`` what works. ``end`` is as in ``Trial``.
    """

    version: str | None = None
    path: str | None = None
    cuda: str | None = None
    hip: str | None = None
    arches: tuple[str, ...] | None = None
    distributed: bool | None = None
    nccl: bool | None = None
    gloo: bool | None = None
    mpi: bool | None = None
    nccl_version: str | None = None
    flags: tuple[str, ...] | None = None
    devices: tuple[Device, ...] | None = None
    cuda_cause: str | None = None
    cuda_said: str | None = None
    trials: tuple[Trial, ...] | None = None
    imports: tuple[Import, ...] | None = None
    end: str | None = None
    cause: str | None = None
    said: str | None = None
    seconds: float | None = None

    def works(self, backend: str, device: str) -> bool | None:
        """Whether the trial passed; None when it was not made."""
        found = (t.works for t in self.trials or () if (t.backend, t.device) == (backend, device))
        return next(found, None)

    def has_code_for(self, capability: str) -> bool | None:
        """Whether the wheel has machine code for a GPU of this capability, such as ``8.7``.

        Code for 8.0 runs on 8.6 and 8.9, not on the Tegra 8.7; PTX (``compute_80``) runs on all
        newer ones (CUDA C++ Programming Guide, 5.8.2).
        """
        if self.arches is None:
            return None
        major, _, minor = capability.partition(".")
        wanted = int(major) * 10 + int(minor or 0)
        return any(_runs(arch, wanted) for arch in self.arches)


def _runs(arch: str, wanted: int) -> bool:
    kind, _, digits = arch.rstrip("af").partition("_")
    if not digits.isdigit():
        return False
    made = int(digits)
    if kind == "compute":
        return made <= wanted
    tegra = {72, 87, 101, 110}
    alike = made // 10 == wanted // 10 and made <= wanted and not {made, wanted} & tegra
    return made == wanted or alike


def parse_torch(text: str | bytes) -> TorchFacts:
    """The facts in what the torch probe printed.

    Raises:
        FailedError: there are none in it.
    """
    return read(TorchFacts, answer_in(text, "probe_torch"))
