"""F3.09: what lies on another node goes with the process that owns it, and not before."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import ray
from ray._private.state import available_resources_per_node

from tests.helpers import harness

AWAY: dict[str, Any] = {"num_cpus": 2, "resources": {"away": 1}}


@ray.remote(resources={"away": 0.01}, max_retries=0)
def big() -> Any:
    return np.full(1_000_000, 7)


@ray.remote(num_cpus=0)
class Keeper:
    """Keeps the result of a task that has run on the other node, without a copy here."""

    def make(self) -> None:
        self.made = big.remote()
        ray.wait([self.made], fetch_local=False, timeout=60)

    def read(self) -> int:
        return int(ray.get(self.made, timeout=60)[-1])


def used_away() -> float:
    """How many bytes of the other node's store are in use."""
    away = next(node for node in ray.nodes() if node["Resources"].get("away"))
    free = available_resources_per_node()[away["NodeID"]]
    return float(away["Resources"]["object_store_memory"] - free["object_store_memory"])


@pytest.mark.contract("F3.09")
def test_results_of_a_detached_actors_tasks_outlive_its_driver(make_cluster: Any) -> None:
    """They lay on a node that did not know whose they are, and went with the driver's job."""
    cluster = make_cluster(AWAY)
    keeper = Keeper.options(name="keeper", namespace="owners", lifetime="detached").remote()
    ray.get(keeper.make.remote(), timeout=60)
    ray.shutdown()
    ray.init(address=cluster.address)
    # The job is over on all nodes when what another driver does next is done.
    ray.get(big.remote(), timeout=60)
    keeper = ray.get_actor("keeper", namespace="owners")
    assert ray.get(keeper.read.remote(), timeout=60) == 7
    ray.kill(keeper)
    harness.wait_until(lambda: used_away() == 0, what="the result has gone with the actor")


@pytest.mark.contract("F3.09")
def test_what_a_killed_process_owned_goes_from_other_nodes(make_cluster: Any) -> None:
    """Results that its tasks had left on another node stayed until the job's end."""
    make_cluster(AWAY)
    keeper = Keeper.remote()
    ray.get(keeper.make.remote(), timeout=60)
    harness.wait_until(lambda: used_away() >= 8_000_000, what="the result is there")
    ray.kill(keeper)
    harness.wait_until(lambda: used_away() == 0, what="the result has gone with the actor")
