"""The environment a worker is started with. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from shanty.spec.plan import LaunchPlan, NodeLaunch

# What other launchers leave: exported long ago, or the agent itself was started by one of them.
# A worker that believed them would join with a wrong rank, or wait at a wrong address.
_STALE = frozenset(
    {
        "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "NODE_RANK",
        "GROUP_WORLD_SIZE", "ROLE_RANK", "ROLE_WORLD_SIZE", "ROLE_NAME", "MASTER_ADDR",
        "MASTER_PORT", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS", "SLURM_TASKS_PER_NODE",
        "MPI_LOCALRANKID", "MPI_LOCALNRANKS", "SHANTY_STORE", "SHANTY_NODE", "SHANTY_AGENT_PID",
    }
)  # fmt: skip
_STALE_STARTS = ("TORCHELASTIC_", "OMPI_", "PMI_", "PMIX_")


def worker_environment(
    plan: LaunchPlan,
    launch: NodeLaunch,
    local_rank: int,
    inherited: Mapping[str, str],
    own: Mapping[str, str],
) -> dict[str, str]:
    """All variables of the worker ``local_rank`` of a node.

    ``inherited`` is the agent's environment, ``own`` what the agent adds (its pid, the store).
    Later ones win: inherited, the plan's, the rank's own.
    """
    kept = {n: v for n, v in inherited.items() if not _is_stale(n)}
    planned = {variable.name: variable.value for variable in launch.env}
    return kept | planned | _place(plan, launch, local_rank) | dict(own)


def _is_stale(name: str) -> bool:
    return name in _STALE or name.startswith(_STALE_STARTS)


def _place(plan: LaunchPlan, launch: NodeLaunch, local_rank: int) -> dict[str, str]:
    index = str(plan.nodes.index(launch))
    return {
        "RANK": str(launch.ranks[local_rank]),
        "WORLD_SIZE": str(plan.world_size),
        "LOCAL_RANK": str(local_rank),
        "LOCAL_WORLD_SIZE": str(len(launch.ranks)),
        "GROUP_RANK": index,
        "NODE_RANK": index,
        "SHANTY_NODE": launch.node.name,
    }
