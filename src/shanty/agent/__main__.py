"""``python -m shanty.agent PLAN.json NODE``: run one node's workers to their end."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from shanty.agent.run import run_node
from shanty.agent.signals import SignalPipe
from shanty.agent.stopping import Limits
from shanty.errors import ShantyError, UsageError
from shanty.record.atomic import read_json
from shanty.spec.codec import from_dict
from shanty.spec.plan import LaunchPlan, NodeLaunch


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code 0, or what the first cause said: 2, 3, 4, or 130 after a stop."""
    with SignalPipe() as pipe:
        asked = _parser().parse_args(argv)
        try:
            plan = _read_plan(asked.plan)
            launch = _launch_of(plan, asked.node)
            limits = Limits(save=asked.save_limit, grace=asked.grace)
            return run_node(plan, launch, pipe, limits)
        except ShantyError as error:
            print(error.at(asked.node), file=sys.stderr)  # noqa: T201 - the agent's log
            return error.exit_code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m shanty.agent", description=__doc__)
    parser.add_argument("plan", type=Path, help="the plan, as JSON")
    parser.add_argument("node", help="the node of the plan that this machine is")
    add = parser.add_argument
    add("--save-limit", type=float, default=Limits.save, help="seconds to save after a stop")
    add("--grace", type=float, default=Limits.grace, help="seconds to end after another failed")
    return parser


def _read_plan(path: Path) -> LaunchPlan:
    try:
        return from_dict(LaunchPlan, read_json(path))
    except (OSError, ValueError, TypeError) as error:
        raise UsageError(f"{path} is no plan: {error}", hint="start the run anew") from error


def _launch_of(plan: LaunchPlan, name: str) -> NodeLaunch:
    for launch in plan.nodes:
        if launch.node.name == name:
            return launch
    known = ", ".join(n.node.name for n in plan.nodes)
    raise UsageError(f"the plan has no node {name}", hint=f"it has: {known}")


if __name__ == "__main__":
    sys.exit(main())
