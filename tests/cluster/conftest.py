"""What the tests of several nodes share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import ray
from ray.cluster_utils import Cluster

from tests.helpers.shared import cluster as shared

STORE = 200 * 1024 * 1024


@pytest.fixture
def make_cluster() -> Iterator[Callable[..., Cluster]]:
    """A head with one CPU and nodes as listed, connected; all of it ends with the test."""
    shared.stop()
    made: list[Cluster] = []

    def make(*nodes: dict[str, Any]) -> Cluster:
        cluster = Cluster(
            initialize_head=True,
            head_node_args={"num_cpus": 1, "object_store_memory": STORE},
        )
        made.append(cluster)
        for node in nodes:
            cluster.add_node(object_store_memory=STORE, **node)
        cluster.wait_for_nodes()
        ray.init(address=cluster.address)
        return cluster

    yield make
    ray.shutdown()
    for cluster in made:
        cluster.shutdown()
