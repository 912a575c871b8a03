"""Where tasks go while workers are leased: SPREAD goes round the nodes, others to their arguments."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import ray
from ray.cluster_utils import Cluster

from tests.helpers.harness import wait_until
from tests.helpers.shared import cluster as shared

STORE = 200 << 20
NODES = 4
# How long a node may take to be used; a busy machine starts workers slowly.
LIMIT_S = 90


@pytest.fixture(scope="module")
def four() -> Iterator[list[str]]:
    """A head and three nodes, each with a resource of its own, `at0` and so on; their ids in that order."""
    shared.stop()
    cluster = Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": 2, "resources": {"at0": 1}, "object_store_memory": STORE},
    )
    for index in range(1, NODES):
        cluster.add_node(num_cpus=2, resources={f"at{index}": 1}, object_store_memory=STORE)
    cluster.wait_for_nodes()
    ray.init(address=cluster.address)
    by_resource = {name: n["NodeID"] for n in ray.nodes() for name in n["Resources"]}
    yield [by_resource[f"at{index}"] for index in range(NODES)]
    ray.shutdown()
    cluster.shutdown()


def here() -> str:
    return str(ray.get_runtime_context().get_node_id())


@ray.remote(scheduling_strategy="SPREAD")
def spread() -> str:
    return here()


@ray.remote
def hold(started: str, end: str) -> None:
    Path(started).touch()
    while not Path(end).exists():
        time.sleep(0.02)


@ray.remote
def make(value: int) -> Any:
    return np.full(1 << 20, value, np.uint8)


@ray.remote
def follow(array: Any) -> tuple[int, str]:
    return int(array[0]), here()


def all_free() -> None:
    wait_until(
        lambda: ray.available_resources().get("CPU") == 2.0 * NODES, within=LIMIT_S, what="all CPUs"
    )


@pytest.mark.contract("F4.15")
def test_spread_goes_round_the_nodes_one_task_after_the_other(four: list[str]) -> None:
    all_free()
    for _ in range(3):
        used = [ray.get(spread.remote(), timeout=LIMIT_S) for _ in range(2 * NODES)]
        # A lease that was idle for long ends between two tasks of a busy machine; no node is left out.
        assert set(used) == set(four)


@pytest.mark.contract("F4.15")
def test_spread_uses_a_node_again_that_was_full(four: list[str], tmp_path: Path) -> None:
    all_free()
    started, end = tmp_path / "started", tmp_path / "end"
    held = hold.options(resources={"at2": 1}, num_cpus=2).remote(str(started), str(end))
    wait_until(started.exists, within=LIMIT_S, what="the task that fills a node")
    used = {ray.get(spread.remote(), timeout=LIMIT_S) for _ in range(4 * NODES)}
    assert used == {four[0], four[1], four[3]}
    end.touch()
    ray.get(held, timeout=LIMIT_S)
    # The workers of the other nodes are never idle for long enough to be given back.
    until = time.monotonic() + LIMIT_S
    while four[2] not in ray.get([spread.remote() for _ in range(4)], timeout=LIMIT_S):
        assert time.monotonic() < until, "the node that got room again is not used"


@pytest.mark.contract("F4.15")
def test_many_spread_tasks_at_once_use_every_node(four: list[str]) -> None:
    def all_used() -> bool:
        """A busy machine may be through with the tasks before a node has begun its worker."""
        all_free()
        return set(ray.get([spread.remote() for _ in range(400)], timeout=LIMIT_S)) == set(four)

    wait_until(all_used, within=LIMIT_S, what="tasks on every node")


@pytest.mark.contract("F4.20", "F3.04")
@pytest.mark.parametrize("at_once", [False, True])
def test_tasks_follow_their_large_arguments(four: list[str], at_once: bool) -> None:
    wanted = [(i, four[i % NODES]) for i in range(4 * NODES)]

    def all_follow() -> bool:
        """Calls wait 200 ms for a node that asks its idle workers back; a busy machine takes longer."""
        all_free()
        at = [make.options(resources={f"at{i % NODES}": 0.1}).remote(i) for i, _ in wanted]
        ray.wait(at, num_returns=len(at), fetch_local=False, timeout=LIMIT_S)
        # A worker of their kind is leased, on the node of the driver.
        assert ray.get(follow.remote(np.zeros(8, np.uint8)), timeout=LIMIT_S)[0] == 0
        if at_once:
            found = ray.get([follow.remote(array) for array in at], timeout=LIMIT_S)
        else:
            found = [ray.get(follow.remote(array), timeout=LIMIT_S) for array in at]
        assert [value for value, _ in found] == [value for value, _ in wanted]
        return bool(found == wanted)

    wait_until(all_follow, within=LIMIT_S, what="a round in which all calls follow their arguments")
