"""Handles that prefer replicas of their node, on two nodes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import ray
from ray import serve
from ray.cluster_utils import Cluster

from tests.helpers.harness import free_port
from tests.helpers.shared import cluster as shared

S = 60
STORE = 200 << 20


@pytest.fixture
def two_nodes() -> Iterator[str]:
    """The other node's resource `there`; Serve runs."""
    shared.stop()
    cluster = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 2, "object_store_memory": STORE}
    )
    cluster.add_node(num_cpus=2, resources={"there": 4}, object_store_memory=STORE)
    cluster.wait_for_nodes()
    ray.init(address=cluster.address)
    serve.start(http_options={"port": free_port(), "location": "HeadOnly"})
    yield "there"
    serve.shutdown()
    ray.shutdown()
    cluster.shutdown()


@serve.deployment(max_ongoing_requests=1)
class Place:
    def __call__(self, wait: str = "") -> str:
        import os
        import time

        while wait and not os.path.exists(wait):
            time.sleep(0.01)
        return str(ray.get_runtime_context().get_node_id())


@serve.deployment
class Front:
    def __init__(self, place: Any) -> None:
        self.place = place.options(_prefer_local_routing=True)

    async def __call__(self) -> tuple[str, list[str]]:
        found = [await self.place.remote() for _ in range(6)]
        return str(ray.get_runtime_context().get_node_id()), found


@pytest.mark.contract("F12.03")
def test_calls_stay_on_their_node_while_it_has_room(two_nodes: str, tmp_path: Path) -> None:
    # Four replicas of one CPU each: two on each node.
    place = Place.options(num_replicas=4, ray_actor_options={"num_cpus": 1})
    away = {"num_cpus": 0, "resources": {two_nodes: 1}}
    handle = serve.run(Front.options(ray_actor_options=away).bind(place.bind()), route_prefix=None)
    far, found = handle.remote().result(timeout_s=S)
    assert set(found) == {far}
    near = serve.get_deployment_handle("Place", "default").options(_prefer_local_routing=True)
    here = ray.get_runtime_context().get_node_id()
    assert here != far
    assert {near.remote().result(timeout_s=S) for _ in range(6)} == {here}
    # Where this node has no room the other one answers.
    end = tmp_path / "end"
    calls = [near.remote(str(end)) for _ in range(4)]
    end.touch()
    nodes = [call.result(timeout_s=S) for call in calls]
    assert sorted(nodes) == sorted([here, here, far, far])
