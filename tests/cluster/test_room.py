"""Tasks whose arguments and results are large beside the object stores of two nodes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import ray
from ray.cluster_utils import Cluster

from tests.helpers.shared import cluster as shared

pytestmark = pytest.mark.contract("F3.05", "F4.01")

MB = 1_000_000
STORE = 100 * MB
TASKS = 7
LIMIT_S = 300


@pytest.fixture(scope="module")
def two() -> Iterator[Cluster]:
    """Two nodes, each with room for three of the objects."""
    shared.stop()
    patch = pytest.MonkeyPatch()
    # A machine whose disk is nearly full by other things has room for what these tests spill.
    patch.setenv("RAY_local_fs_capacity_threshold", "0.999")
    cluster = Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": 3, "resources": {"a": 8}, "object_store_memory": STORE},
    )
    cluster.add_node(num_cpus=3, resources={"b": 8}, object_store_memory=STORE)
    cluster.wait_for_nodes()
    ray.init(address=cluster.address)
    yield cluster
    ray.shutdown()
    cluster.shutdown()
    patch.undo()


def filled(value: int) -> Any:
    return np.full(30 * MB, value, np.uint8)


@ray.remote
def make(value: int) -> Any:
    return filled(value)


@ray.remote
def add(*arrays: Any) -> Any:
    total = arrays[0].copy()
    for array in arrays[1:]:
        total += array
    return total


def ends_of(array: Any) -> tuple[int, int, int]:
    return len(array), int(array[0]), int(array[-1])


@ray.remote(num_cpus=0)
def reads(box: list[Any]) -> tuple[int, int, int]:
    return ends_of(ray.get(box[0]))


@pytest.mark.parametrize("source", ["put", "a", "b"])
@pytest.mark.parametrize("place", ["a", "b", "anywhere"])
@pytest.mark.parametrize("count", [1, 2])
def test_results_are_right_though_not_all_fit(
    two: Cluster, source: str, place: str, count: int
) -> None:
    """Arguments from either node, tasks on either: more than both stores hold, so that some wait."""

    def on(where: str) -> dict[str, Any]:
        return {} if where == "anywhere" else {"resources": {where: 1}}

    def argument(value: int) -> Any:
        if source == "put":
            return ray.put(filled(value))
        return make.options(**on(source)).remote(value)

    arguments = [argument(n) for n in range(TASKS + count - 1)]
    sums = [add.options(**on(place)).remote(*arguments[n : n + count]) for n in range(TASKS)]
    expected = [
        (30 * MB, value, value) for value in (sum(range(n, n + count)) for n in range(TASKS))
    ]
    del arguments
    assert ray.get([reads.remote([ref]) for ref in sums], timeout=LIMIT_S) == expected
    for ref, wanted in zip(sums, expected, strict=True):
        assert ends_of(ray.get(ref, timeout=LIMIT_S)) == wanted
