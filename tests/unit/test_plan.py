"""A plan is a value: pure, printable, and every variable in it has a reason."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from shanty.cluster.here import local_node, usable_cores
from shanty.cluster.plan import Job, make_plan
from shanty.spec.codec import from_dict, to_dict
from shanty.spec.plan import LaunchPlan

JOB = Job(run_id="r1", module="shanty.train.worker", spec="/runs/a b/run.json", rundir="/runs/a b")


def test_one_rank_per_process_on_the_node_named_local() -> None:
    plan = make_plan(JOB, local_node(3), cores=8)
    assert plan.world_size == 3
    (launch,) = plan.nodes
    assert (launch.node.name, launch.ranks) == ("local", (0, 1, 2))


@pytest.mark.parametrize(("ranks", "cores", "threads"), [(1, 8, "8"), (3, 8, "2"), (4, 2, "1")])
def test_cores_are_divided_by_ranks(ranks: int, cores: int, threads: str) -> None:
    (launch,) = make_plan(JOB, local_node(ranks), cores).nodes
    found = {v.name: v for v in launch.env}
    assert found["OMP_NUM_THREADS"].value == threads
    assert "divided by" in found["OMP_NUM_THREADS"].why


def test_every_variable_has_a_reason_and_none_is_nccls() -> None:
    (launch,) = make_plan(JOB, local_node(2), 2).nodes
    assert all(v.why for v in launch.env)
    assert not [v.name for v in launch.env if v.name.startswith("NCCL")]
    assert {v.name: v.value for v in launch.env}["GLOO_SOCKET_IFNAME"] == "lo"


def test_a_plan_survives_json() -> None:
    plan = make_plan(replace(JOB, generation=4), local_node(2), 2)
    assert from_dict(LaunchPlan, json.loads(json.dumps(to_dict(plan)))) == plan


def test_the_same_input_gives_the_same_plan_and_the_text_tells_the_reasons() -> None:
    node = local_node(2)
    assert make_plan(JOB, node, 2) == make_plan(JOB, node, 2)
    text = str(make_plan(JOB, node, 2))
    assert "# GLOO_SOCKET_IFNAME: all ranks are on this machine" in text
    assert "--nproc-per-node 2 -m shanty.train.worker '/runs/a b/run.json'" in text


@pytest.mark.parametrize(("ranks", "cores"), [(0, 1), (1, 0)])
def test_nothing_to_start_is_a_callers_error(ranks: int, cores: int) -> None:
    with pytest.raises(ValueError, match="at least one"):
        make_plan(JOB, local_node(ranks), cores)


def test_this_machine_has_a_core() -> None:
    assert usable_cores() >= 1
