"""Placement groups over several nodes: where bundles go, and what follows when a node is lost."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import ray
from ray.cluster_utils import Cluster
from ray.util import placement_group, placement_group_table, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from tests.helpers.harness import IS_HELIOSTAT, wait_until
from tests.helpers.shared import cluster as shared

STORE = 200 * 1024 * 1024

# How long the end of a node may stay unnoticed: Ray asks every few seconds.
NOTICED_S = 10 if IS_HELIOSTAT else 60


@ray.remote(num_cpus=0)
def where() -> str:
    return str(ray.get_runtime_context().get_node_id())


@ray.remote
class Resident:
    def where(self) -> str:
        return str(ray.get_runtime_context().get_node_id())


def inside(group: Any, index: int = -1, **more: Any) -> PlacementGroupSchedulingStrategy:
    return PlacementGroupSchedulingStrategy(
        placement_group=group, placement_group_bundle_index=index, **more
    )


def nodes_of(group: Any) -> list[str]:
    """The node of each bundle, by index."""
    places = placement_group_table(group)["bundles_to_node_id"]
    return [places[i] for i in range(group.bundle_count)]


def node_with(resource: str) -> str:
    (node,) = [n["NodeID"] for n in ray.nodes() if n["Alive"] and resource in n["Resources"]]
    return str(node)


@pytest.fixture(scope="module")
def three() -> Iterator[Cluster]:
    """A head and two nodes with labels and resources of their own, for tests that break nothing."""
    shared.stop()
    cluster = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 2, "object_store_memory": STORE}
    )
    for side in ("left", "right"):
        cluster.add_node(
            num_cpus=2,
            num_gpus=2,
            resources={side: 2},
            labels={"side": side},
            object_store_memory=STORE,
        )
    cluster.wait_for_nodes()
    ray.init(address=cluster.address)
    yield cluster
    ray.shutdown()
    cluster.shutdown()


@pytest.fixture(autouse=True)
def all_given_back(request: pytest.FixtureRequest) -> Iterator[None]:
    """A test on the shared cluster begins and ends with every CPU free."""
    yield
    if "three" in request.fixturenames:
        for row in placement_group_table().values():
            assert row["state"] == "REMOVED", row
        wait_until(lambda: ray.available_resources().get("CPU") == 6.0, what="all CPUs free")


@pytest.mark.contract("F4.12", "F4.06")
@pytest.mark.parametrize(
    ("strategy", "n_bundles", "n_nodes"),
    [
        ("PACK", 2, 1),
        ("PACK", 4, 2),
        ("STRICT_PACK", 2, 1),
        ("SPREAD", 3, 3),
        ("SPREAD", 5, 3),
        ("STRICT_SPREAD", 3, 3),
    ],
)
def test_how_bundles_lie(three: Cluster, strategy: str, n_bundles: int, n_nodes: int) -> None:
    group = placement_group([{"CPU": 1}] * n_bundles, strategy=strategy)
    assert group.wait(20)
    nodes = nodes_of(group)
    assert len(set(nodes)) == n_nodes
    # What runs in a bundle runs on its node.
    found = [
        where.options(num_cpus=1, scheduling_strategy=inside(group, i)).remote()
        for i in range(n_bundles)
    ]
    assert ray.get(found, timeout=30) == nodes
    anywhere = where.options(scheduling_strategy=inside(group)).remote()
    assert ray.get(anywhere, timeout=20) in nodes
    remove_placement_group(group)


@pytest.mark.contract("F4.12")
@pytest.mark.parametrize(
    ("bundles", "strategy"),
    [([{"CPU": 1}] * 4, "STRICT_SPREAD"), ([{"CPU": 1}] * 3, "STRICT_PACK")],
    ids=str,
)
def test_strict_strategies_wait_rather_than_bend(
    three: Cluster, bundles: list[dict[str, float]], strategy: str
) -> None:
    group = placement_group(bundles, strategy=strategy)
    assert group.wait(0.3) is False
    assert placement_group_table(group)["state"] == "PENDING"
    if IS_HELIOSTAT:
        why = placement_group_table(group)["why"]
        assert ("node of its own" if strategy == "STRICT_SPREAD" else "3 CPU") in why, why
    remove_placement_group(group)


@pytest.mark.contract("F4.12", "F4.17")
def test_labels_choose_the_nodes_of_bundles(three: Cluster) -> None:
    left, right = node_with("left"), node_with("right")
    group = placement_group(
        [{"CPU": 1}] * 2, bundle_label_selector=[{"side": "right"}, {"side": "left"}]
    )
    assert group.wait(20)
    assert nodes_of(group) == [right, left]
    remove_placement_group(group)
    nowhere = placement_group([{"CPU": 1}], bundle_label_selector=[{"side": "up"}])
    assert nowhere.wait(0.3) is False
    remove_placement_group(nowhere)


@pytest.mark.contract("F4.12", "F4.02", "F4.03")
def test_gpus_of_bundles_on_several_nodes(three: Cluster) -> None:
    @ray.remote(num_cpus=1, num_gpus=1)
    class Worker:
        def place(self) -> tuple[str, tuple[int, ...]]:
            node = str(ray.get_runtime_context().get_node_id())
            return node, tuple(int(i) for i in ray.get_gpu_ids())

    group = placement_group([{"CPU": 1, "GPU": 1}] * 4, strategy="PACK")
    assert group.wait(20)
    workers = [Worker.options(scheduling_strategy=inside(group, i)).remote() for i in range(4)]
    places = ray.get([w.place.remote() for w in workers], timeout=60)
    assert [node for node, _ in places] == nodes_of(group)
    assert len(set(places)) == 4, "no device is given to two"
    remove_placement_group(group)


@pytest.mark.contract("F4.14", "F4.06", "F1.05")
def test_a_group_is_used_from_another_node(three: Cluster) -> None:
    """The handle travels; a capturing parent's children find the group from its node."""
    group = placement_group([{"CPU": 1}, {"CPU": 1}], strategy="STRICT_SPREAD")

    @ray.remote(num_cpus=0, resources={"left": 1})
    def use(group: Any) -> tuple[bool, set[str]]:
        ready = group.wait(20)
        refs = [
            where.options(num_cpus=1, scheduling_strategy=inside(group, i)).remote()
            for i in range(2)
        ]
        return ready, set(ray.get(refs))

    ready, found = ray.get(use.remote(group), timeout=60)
    assert ready
    assert found == set(nodes_of(group))

    @ray.remote(num_cpus=0)
    def parent() -> set[str]:
        return set(ray.get([where.options(num_cpus=1).remote() for _ in range(4)]))

    strategy = inside(group, placement_group_capture_child_tasks=True)
    children = ray.get(parent.options(scheduling_strategy=strategy).remote(), timeout=60)
    assert children <= set(nodes_of(group))
    remove_placement_group(group)


@pytest.mark.contract("F4.13")
def test_removal_is_heard_on_every_node(three: Cluster) -> None:
    group = placement_group([{"CPU": 2}] * 3, strategy="STRICT_SPREAD")
    assert group.wait(20)
    residents = [
        Resident.options(num_cpus=1, scheduling_strategy=inside(group, i)).remote()
        for i in range(3)
    ]
    ray.get([r.where.remote() for r in residents], timeout=60)
    remove_placement_group(group)
    for resident in residents:
        with pytest.raises(ray.exceptions.RayActorError):
            wait_until(lambda r=resident: not ray.get(r.where.remote(), timeout=20))
    task = where.options(scheduling_strategy=inside(group, 0), max_retries=0).remote()
    if IS_HELIOSTAT:  # Ray leaves it waiting for ever
        with pytest.raises(ray.exceptions.TaskPlacementGroupRemoved):
            ray.get(task, timeout=20)


@pytest.mark.contract("F4.12", "F4.07", "F6.24")
def test_a_group_waits_for_nodes_to_join(make_cluster: Any) -> None:
    cluster = make_cluster()
    group = placement_group([{"late": 1}] * 2, strategy="STRICT_SPREAD")
    task = where.options(scheduling_strategy=inside(group, 1)).remote()
    actor = Resident.options(num_cpus=0, scheduling_strategy=inside(group, 0)).remote()
    call = actor.where.remote()
    assert group.wait(0.3) is False
    for _ in range(2):
        cluster.add_node(num_cpus=1, resources={"late": 1}, object_store_memory=STORE)
    assert group.wait(60)
    assert ray.get([call, task], timeout=60) == nodes_of(group)


@pytest.mark.contract("F4.12", "F5.02", "F4.13")
def test_bundles_of_a_lost_node_are_placed_anew(make_cluster: Any) -> None:
    cluster = make_cluster({"num_cpus": 1, "resources": {"bed": 1}})
    doomed = cluster.add_node(
        num_cpus=1, resources={"bed": 1, "doomed": 1}, object_store_memory=STORE
    )
    cluster.wait_for_nodes()
    lost = node_with("doomed")
    group = placement_group([{"bed": 1}] * 2, strategy="STRICT_SPREAD")
    assert group.wait(20)
    assert lost in nodes_of(group)
    index = nodes_of(group).index(lost)
    residents = [
        Resident.options(
            num_cpus=0,
            resources={"bed": 1},
            max_restarts=-1,
            max_task_retries=-1,
            scheduling_strategy=inside(group, i),
        ).remote()
        for i in range(2)
    ]
    before = ray.get([r.where.remote() for r in residents], timeout=60)
    cluster.remove_node(doomed)

    def rescheduling() -> bool:
        return bool(placement_group_table(group)["state"] == "RESCHEDULING")

    wait_until(rescheduling, within=NOTICED_S, what="the loss is noticed")
    assert ray.get(residents[1 - index].where.remote(), timeout=30) == before[1 - index]
    cluster.add_node(num_cpus=1, resources={"bed": 1, "spare": 1}, object_store_memory=STORE)
    wait_until(lambda: placement_group_table(group)["state"] == "CREATED", what="all placed")
    assert group.wait(60)
    after = nodes_of(group)
    assert after[1 - index] == before[1 - index], "what was not lost stays where it is"
    assert after[index] == node_with("spare")
    assert ray.get(residents[index].where.remote(), timeout=60) == after[index]
    task = where.options(scheduling_strategy=inside(group, index)).remote()
    assert ray.get(task, timeout=30) == after[index]


CREATOR = """
import sys
import ray
from ray.util import placement_group

ray.init(address=sys.argv[1], namespace="groups")
mine = placement_group([{"CPU": 1}], name="mine")
kept = placement_group([{"CPU": 1}], name="kept", lifetime="detached")
waits = placement_group([{"CPU": 100}])
assert mine.wait(20)
assert kept.wait(20)

@ray.remote(num_cpus=0)
class Maker:
    def make(self):
        self.group = placement_group([{"CPU": 1}], name="the actor's")
        return self.group.wait(20)

maker = Maker.options(name="maker", lifetime="detached").remote()
assert ray.get(maker.make.remote())
print("ids=" + ",".join(g.id.hex() for g in (mine, kept, waits)), flush=True)
"""


@pytest.mark.contract("F4.12", "F4.13", "F5.07")
def test_groups_end_with_their_creator(make_cluster: Any, run_driver: Any) -> None:
    cluster = make_cluster({"num_cpus": 4})
    ray.shutdown()
    done = run_driver(CREATOR, args=[cluster.address]).check()
    mine, kept, waits = done.value("ids").split(",")
    ray.init(address=cluster.address, namespace="groups")

    def state(group: str) -> str:
        return str(placement_group_table()[group]["state"])

    wait_until(lambda: state(mine) == "REMOVED", what="the driver's group")
    wait_until(lambda: state(waits) == "REMOVED", what="the one that still waited")
    assert state(kept) == "CREATED"
    of_actor = ray.util.get_placement_group("the actor's")
    assert state(of_actor.id.hex()) == "CREATED", "its actor outlives the job"
    ray.kill(ray.get_actor("maker"))
    wait_until(lambda: state(of_actor.id.hex()) == "REMOVED", what="the actor's group")
    remove_placement_group(ray.util.get_placement_group("kept"))
    wait_until(lambda: ray.available_resources().get("CPU") == 5.0, what="all CPUs free")
