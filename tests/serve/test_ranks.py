"""Ranks of replicas, and how many of them a node may have."""

from __future__ import annotations

import random
import time
from typing import Any

import pytest
import ray
from ray import serve
from ray.cluster_utils import Cluster

from tests.helpers.harness import IS_HELIOSTAT, free_port
from tests.helpers.serving import Client
from tests.helpers.shared import cluster as shared

CLUSTER = {"num_cpus": 8}
S = 60
STORE = 200 << 20

if IS_HELIOSTAT:
    from heliostat.serve.controller.node_choice import Node, place
    from heliostat.serve.controller.ranks import DeploymentRanks, Rank, Ranks
    from heliostat.serve.deployment_config import DeploymentConfig
    from heliostat.serve.specs import DeploymentID

heliostat_only = pytest.mark.skipif(not IS_HELIOSTAT, reason="Heliostat's own rules")


@heliostat_only
@pytest.mark.contract("F12.02")
@pytest.mark.parametrize("seed", range(20))
def test_ranks_are_each_once_and_stay_while_others_come_and_go(seed: int) -> None:
    draw, ranks = random.Random(seed), Ranks()
    nodes: dict[str, str] = {}
    for number in range(60):
        before = {one: ranks.of(one) for one in nodes}
        if nodes and draw.random() < 0.4:
            gone = draw.choice(sorted(nodes))
            ranks.give_back(gone)
            del nodes[gone], before[gone]
        else:
            replica = f"r{number}"
            nodes[replica] = draw.choice("abc")
            ranks.take(replica, nodes[replica])
        found = {one: ranks.of(one) for one in nodes}
        assert all(found[one] == rank for one, rank in before.items())
        if draw.random() < 0.3:
            ranks.close_gaps()
            rows = [ranks.of(one) for one in nodes]
            assert sorted(row.rank for row in rows if row) == list(range(len(nodes)))
            assert {row.node_rank for row in rows if row} == set(range(len(set(nodes.values()))))
        for node in set(nodes.values()):
            here = [ranks.of(one) for one in nodes if nodes[one] == node]
            assert len({row.node_rank for row in here if row}) == 1
            assert len({row.local_rank for row in here if row}) == len(here)


@heliostat_only
@pytest.mark.contract("F12.02")
def test_gaps_close_once_there_are_as_many_as_there_are_to_be() -> None:
    key, worlds = DeploymentID("app", "d"), DeploymentRanks()
    for number in range(3):
        assert worlds.take(key, f"r{number}", "n", None, 3) == Rank(number, 0, number)
    assert worlds.settle(key, {"r0", "r1", "r2"}, ["r0", "r1", "r2"], 3) == []
    # The first is gone, and another is to come: nobody's rank changes for that.
    assert worlds.settle(key, {"r1", "r2"}, ["r1", "r2"], 3) == []
    assert worlds.take(key, "r3", "m", None, 3) == Rank(0, 1, 0)
    # Two are enough: the fewest are told another rank, all of them how many there are.
    told = worlds.settle(key, {"r1", "r2"}, ["r1", "r2"], 2)
    assert {one.replica: (one.rank.rank, one.world_size) for one in told} == {
        "r1": (1, 2),
        "r2": (0, 2),
    }
    # A controller that comes after this one goes on with what replicas say.
    later = DeploymentRanks()
    later.take(key, "r2", "n", Rank(0, 0, 2), 2)
    assert later.take(key, "r4", "n", None, 2) == Rank(1, 0, 0)
    # One that began before that controller had heard of all may have another's: it is settled.
    later.take(key, "r1", "n", Rank(1, 0, 1), 2)
    told = later.settle(key, {"r1", "r2", "r4"}, ["r1", "r2", "r4"], 3)
    assert sorted(one.rank.rank for one in told) == [0, 1, 2]


@heliostat_only
@pytest.mark.contract("F12.01")
def test_a_replica_goes_where_the_fewest_are_and_never_beyond_the_most() -> None:
    config = DeploymentConfig(max_replicas_per_node=2, ray_actor_options={"resources": {"x": 1}})
    roomy, full = {"CPU": 4.0, "x": 4.0}, {"CPU": 0.0, "x": 4.0}
    nodes = [Node("a", roomy), Node("b", {**roomy, "CPU": 2.0}), Node("c", full)]
    assert place(config, nodes, []) == "a"
    assert place(config, nodes, ["a"]) == "b"
    assert place(config, nodes, ["a", "a", "b"]) == "b"
    assert place(config, nodes, ["a", "a", "b", "b"]) is None


@pytest.mark.contract("F12.02")
def test_replicas_know_their_ranks(web: Client) -> None:
    @serve.deployment(num_replicas=3, ray_actor_options={"num_cpus": 0.1})
    class Ranked:
        def __init__(self) -> None:
            self.at_start = self.now()
            self.told: list[int] = []

        def now(self) -> tuple[int, int, int, int]:
            here = serve.get_replica_context()
            ranks = here.rank
            return ranks.rank, ranks.node_rank, ranks.local_rank, here.world_size

        def reconfigure(self, config: Any, rank: Any) -> None:
            self.told.append(rank.rank)

        def all(self) -> tuple[Any, ...]:
            return self.at_start, self.now(), self.told

    def settled(number: int) -> list[tuple[Any, ...]]:
        deadline = time.monotonic() + S
        while True:
            found = serve.get_app_handle("default").broadcast("all").results(timeout_s=S)
            now = sorted(row[1] for row in found)
            if now == [(one, 0, one, number) for one in range(number)]:
                return found
            assert time.monotonic() < deadline, now
            time.sleep(0.05)

    options: dict[str, Any] = {"user_config": {"a": 1}, "version": "1"}
    serve.run(Ranked.options(**options).bind(), route_prefix=None)
    for start, now, told in settled(3):
        assert start[:3] == now[:3]
        assert told == [now[0]]
    serve.run(Ranked.options(num_replicas=2, **options).bind(), route_prefix=None)
    for _, now, told in settled(2):
        assert told[-1] == now[0]


@pytest.mark.contract("F12.01")
def test_a_node_has_no_more_replicas_than_it_may() -> None:
    shared.stop()
    cluster = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 8, "object_store_memory": STORE}
    )
    cluster.add_node(num_cpus=8, object_store_memory=STORE)
    cluster.wait_for_nodes()
    ray.init(address=cluster.address)
    try:
        serve.start(http_options={"port": free_port(), "location": "HeadOnly"})

        @serve.deployment(num_replicas=4, max_replicas_per_node=2)
        class Where:
            def where(self) -> tuple[str, int, int]:
                rank = serve.get_replica_context().rank
                return ray.get_runtime_context().get_node_id(), rank.node_rank, rank.local_rank

        handle = serve.run(Where.bind(), route_prefix=None)
        found = handle.broadcast("where").results(timeout_s=S)
        nodes = {node: rank for node, rank, _ in found}
        assert sorted(nodes.values()) == [0, 1]
        assert sorted((nodes[node], local) for node, _, local in found) == [
            (0, 0),
            (0, 1),
            (1, 0),
            (1, 1),
        ]
    finally:
        serve.shutdown()
        ray.shutdown()
        cluster.shutdown()
