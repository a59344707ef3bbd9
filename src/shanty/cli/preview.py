"""``--dry-run`` and ``--prepare``: what would be done, in numbers and in lines to type."""

from __future__ import annotations

import shlex

from shanty import units
from shanty.cli.images import described
from shanty.cli.order import Order
from shanty.spec.plan import LaunchPlan
from shanty.spec.slices import deal, steps_per_epoch


def opening(order: Order, place: str) -> list[str]:
    """What was found, and with what the run begins or goes on."""
    config = order.spec.config
    lines = described(order.images)
    if not order.before:
        return [*lines, f"run folder: {place}"]
    same = f"global batch {config.batch} and lr {config.optim.lr:.3g} stay as they were"
    ranks = f"{units.plural(order.before, 'rank')} before, {order.ranks} now"
    return [*lines, f"resuming {place}: {ranks}; {same}"]


def derived(order: Order) -> list[str]:
    """The numbers that follow from the settings, as label and text."""
    config, images = order.spec.config, order.images.train
    steps = steps_per_epoch(images, config.batch)
    rows = [
        ("model", f"{config.model.name}, {_weights(config.model.weights)}"),
        ("recipe", f"{order.spec.recipe}: {config.optim.name}"),
        ("batch", _batch(config.batch, images, order.ranks)),
        ("steps", f"{units.count(steps)} per epoch, {units.count(steps * config.epochs)} in all"),
        ("lr", f"{config.optim.lr:.3g} ({order.spec.lr_rule})"),
        ("image size", f"{config.data.size} x {config.data.size}"),
        ("run folder", order.spec.rundir),
    ]
    return [f"{label:<12}{text}" for label, text in rows]


def _weights(path: str) -> str:
    return f"weights from {path}" if path else "random weights"


def _batch(batch: int, images: int, ranks: int) -> str:
    shares = deal(min(batch, images), ranks)
    dealt = " + ".join(map(str, shares)) if ranks <= 8 else f"{shares[0]} to {shares[-1]} per rank"
    return f"{batch} images per step over {units.plural(ranks, 'rank')}: {dealt}"


def by_hand(plan: LaunchPlan) -> list[str]:
    """The lines that start a prepared run: the plan's own (torchrun), mpirun, srun."""
    launch = plan.nodes[0]
    env = "".join(f"{v.name}={shlex.quote(v.value)} " for v in launch.env)
    worker = f"{shlex.quote(launch.node.python)} -m {plan.module} {shlex.quote(plan.spec)}"
    count = len(launch.ranks)
    return [
        str(plan),
        "# or with MPI:",
        f"{env}mpirun -n {count} {worker}",
        "# or under Slurm:",
        f"{env}srun --ntasks={count} {worker}",
    ]
