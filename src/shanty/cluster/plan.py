"""From what is asked to a plan: who starts what, with which variables and why. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from shanty.spec.cluster import Node
from shanty.spec.plan import EnvVar, LaunchPlan, NodeLaunch
from shanty.units import plural


@dataclass(frozen=True, kw_only=True)
class Job:
    """What is to be started: the worker's ``module``, its ``spec`` file and the run's folder.

    Both paths are absolute; ``generation`` counts the starts of the run before this one.
    """

    run_id: str
    module: str
    spec: str
    rundir: str
    generation: int = 0


def make_plan(job: Job, node: Node, cores: int) -> LaunchPlan:
    """The plan for one machine: ``node.nproc`` ranks that share its ``cores``."""
    if node.nproc < 1 or cores < 1:
        raise ValueError(f"need at least one rank and one core, got {node.nproc} and {cores}")
    ranks = tuple(range(node.nproc))
    launch = NodeLaunch(node=node, ranks=ranks, env=_environment(node.nproc, cores))
    return LaunchPlan(
        run_id=job.run_id,
        module=job.module,
        spec=job.spec,
        rundir=job.rundir,
        generation=job.generation,
        nodes=(launch,),
    )


def _environment(ranks: int, cores: int) -> tuple[EnvVar, ...]:
    """No variable without a reason. NCCL's are left alone: on one machine it needs none."""
    share = f"{plural(cores, 'core')} divided by {plural(ranks, 'rank')}"
    known = (
        (
            "GLOO_SOCKET_IFNAME",
            "lo",
            "all ranks are on this machine: gloo listens on loopback only",
        ),
        ("OMP_NUM_THREADS", str(max(1, cores // ranks)), share),
        ("TORCH_CPP_LOG_LEVEL", "ERROR", "warnings of torch's C++ code are not for a person"),
        ("PYTHONUNBUFFERED", "1", "a killed rank's last words are in its log"),
        ("PYTHONUTF8", "1", "names of files and classes survive any locale"),
        ("PYTHONSAFEPATH", "1", "a file in the current folder is never imported by mistake"),
    )
    return tuple(EnvVar(name=n, value=v, why=w) for n, v, w in known)
