"""A cluster that grows with what waits and shrinks when it is idle (Ray's own helper for tests of that)."""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import ray
from ray.autoscaler.sdk import request_resources
from ray.cluster_utils import AutoscalingCluster
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from tests.helpers.harness import wait_until
from tests.helpers.shared import cluster as shared

pytestmark = [pytest.mark.contract("F6.29", "F6.24")]

TYPES = {
    "small": {"resources": {"CPU": 1}, "node_config": {}, "min_workers": 0, "max_workers": 3},
    "with_disk": {
        "resources": {"CPU": 2, "disk": 1},
        "node_config": {},
        "min_workers": 0,
        "max_workers": 1,
    },
}


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[AutoscalingCluster]:
    shared.stop()
    # A folder of sessions of its own: every driver beside it would find this cluster in the usual one.
    with tempfile.TemporaryDirectory(prefix="t", dir="/tmp") as sessions:
        monkeypatch.setenv("RAY_TMPDIR", sessions)
        made = AutoscalingCluster({"CPU": 0}, TYPES, autoscaler_v2=True, idle_timeout_minutes=0.03)
        made.start()
        ray.init("auto")
        yield made
        ray.shutdown()
        made.shutdown()


def alive() -> list[dict[str, Any]]:
    return [node for node in ray.nodes() if node["Alive"]]


def test_nodes_come_for_tasks_actors_groups_and_requests_and_go(
    cluster: AutoscalingCluster,
) -> None:
    assert len(alive()) == 1

    @ray.remote(num_cpus=1)
    def where() -> str:
        return ray.get_runtime_context().get_node_id()

    ray.get(where.remote())

    @ray.remote(resources={"disk": 1})
    class Disk:
        def node(self) -> str:
            return ray.get_runtime_context().get_node_id()

    disk = Disk.remote()
    node = ray.get(disk.node.remote())
    kinds = {one["NodeID"]: one["Labels"].get("ray.io/node-group") for one in alive()}
    assert kinds[node] == "with_disk"

    group = ray.util.placement_group([{"CPU": 1}] * 3, strategy="STRICT_SPREAD")
    ray.get(group.ready())
    ray.util.remove_placement_group(group)
    ray.kill(disk)
    wait_until(lambda: len(alive()) == 1, what="idle nodes go")

    request_resources(bundles=[{"CPU": 1}] * 2)
    wait_until(lambda: ray.cluster_resources().get("CPU") == 2, what="requested nodes are there")
    # Nobody uses them, and they stay; one that dies is replaced.
    before = {one["NodeID"] for one in alive()}
    lost = next(one for one in alive() if one["Labels"].get("ray.io/node-group"))
    os.kill(_pid(lost["NodeID"]), signal.SIGKILL)
    wait_until(
        lambda: (
            ray.cluster_resources().get("CPU") == 2 and {one["NodeID"] for one in alive()} != before
        ),
        what="a node that died is replaced",
    )
    request_resources()
    wait_until(lambda: len(alive()) == 1, what="nodes that nobody asks for go")


@ray.remote(num_cpus=0)
def _daemon() -> int:
    """The process of the daemon: it has started what the worker was forked from."""
    stat = Path(f"/proc/{os.getppid()}/stat").read_text()
    return int(stat.rpartition(")")[2].split()[1])


def _pid(node: str) -> int:
    where = NodeAffinitySchedulingStrategy(node, soft=False)
    found: int = ray.get(_daemon.options(scheduling_strategy=where).remote())
    return found
