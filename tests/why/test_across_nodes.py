"""Questions that other nodes answer: what waits there, and what there is (WHY-1)."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import ray
from ray.cluster_utils import Cluster
from ray.util import state
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from tests.helpers.harness import wait_until
from tests.helpers.shared import cluster as shared

pytestmark = pytest.mark.heliostat_only("Ray cannot say what something waits for")


@pytest.fixture(scope="module")
def two() -> Iterator[Any]:
    """A head without the resource `far`, and a node with it."""
    shared.stop()
    nodes = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    far = nodes.add_node(num_cpus=1, resources={"far": 1})
    ray.init(address=nodes.address)
    yield nodes, far
    ray.shutdown()
    nodes.shutdown()


@ray.remote(num_cpus=0)
def until(path: str) -> int:
    while not os.path.exists(path):
        time.sleep(0.01)
    return os.getpid()


@ray.remote
class Far:
    def big(self) -> Any:
        import numpy

        return numpy.zeros(1 << 20)

    def start(self, path: str) -> list[Any]:
        return [until.remote(path)]

    def sum(self, value: Any) -> float:
        return float(value.sum())


def says(what: Any, *parts: str) -> str:
    def probe() -> str | None:
        text = str(ray.util.why(what))
        return text if all(re.search(part, text) for part in parts) else None

    return wait_until(probe, what=str(parts))


def test_what_waits_on_another_node_is_explained_from_here(two: Any, tmp_path: Path) -> None:
    go = tmp_path / "go"
    first = until.options(resources={"far": 1}).remote(str(go))
    says(first, "was sent to a process on node", r"running there for .* \(pid \d+\)")
    second = until.options(resources={"far": 1}, name="second").remote(str(go))
    says(second, "waits for a worker", "0 of 1 far free")
    go.touch()
    assert all(ray.get([first, second]))


def test_what_processes_of_other_nodes_own_is_listed(two: Any, tmp_path: Path) -> None:
    far = Far.options(resources={"far": 1}).remote()
    (inner,) = ray.get(far.start.remote(str(tmp_path / "go")))
    found = state.get_task(inner.task_id().hex())
    assert found is not None
    assert not isinstance(found, list)
    assert found.name.endswith("until")
    assert {row.node_id for row in state.list_workers() if row.is_alive} == {
        node["NodeID"] for node in ray.nodes()
    }
    text = says(inner, "was asked for it", "running there")
    assert "until was sent to" in text
    (tmp_path / "go").touch()
    ray.get(inner)
    big = far.big.remote()
    assert ray.get(far.sum.remote(big)) == 0.0
    assert "in the object store of node" in str(ray.util.why(big))
    (row,) = [row for row in state.get_objects(big.hex()) if row.pid == os.getpid()]
    assert row.object_size > 8 << 20


def test_each_node_has_measurements_of_its_own(two: Any) -> None:
    ports = {(node["NodeManagerAddress"], node["MetricsExportPort"]) for node in ray.nodes()}
    assert len(ports) == 2
    assert all(port > 0 for _, port in ports)


def test_what_was_on_a_node_that_is_gone_says_so(two: Any, tmp_path: Path) -> None:
    nodes, _ = two
    third = nodes.add_node(num_cpus=1, resources={"third": 1})
    go = tmp_path / "go"

    @ray.remote(num_cpus=0)
    def zeros(mark: str) -> Any:
        import numpy

        if os.path.exists(mark):
            while not go.exists():
                time.sleep(0.01)
        Path(mark).touch()
        return numpy.zeros(1 << 20)

    @ray.remote(num_cpus=0)
    def total(value: Any) -> float:
        return float(value.sum())

    far = Far.options(num_cpus=0, resources={"third": 1}).remote()
    ray.wait([far.big.remote()], fetch_local=False)
    soft = NodeAffinitySchedulingStrategy(_id_of("third"), soft=True)
    made = zeros.options(scheduling_strategy=soft).remote(str(tmp_path / "mark"))
    of_actor = far.big.remote()
    ray.wait([made, of_actor], num_returns=2, fetch_local=False)
    says(made, "brought to this node when somebody here reads it")
    nodes.remove_node(third)
    says(far, "^Far is dead. The node it ran on, .* is gone")
    says(of_actor, "That node is gone: .* ObjectLostError")
    user = total.remote(made)
    says(user, "total waits for its argument .* which zeros makes", "was lost and is made again")
    go.touch()
    assert ray.get(user) == 0.0


def _id_of(resource: str) -> str:
    (found,) = [n["NodeID"] for n in ray.nodes() if n["Alive"] and resource in n["Resources"]]
    return str(found)
