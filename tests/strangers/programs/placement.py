"""Where things run: placement groups, strategies, resources, nodes, labels."""

from __future__ import annotations

import time

import ray
from ray.util.placement_group import (
    get_current_placement_group,
    placement_group,
    placement_group_table,
    remove_placement_group,
)
from ray.util.scheduling_strategies import (
    NodeAffinitySchedulingStrategy,
    PlacementGroupSchedulingStrategy,
)

from tests.strangers.kit import main, raised, stranger, until


@stranger("docs: Placement groups", [True, [{"CPU": 1.0}, {"CPU": 2.0}], "CREATED", 2])
def a_group_is_made() -> object:
    """ready(), wait(), bundle_specs, the table, bundle_count."""
    group = placement_group([{"CPU": 1}, {"CPU": 2}], strategy="PACK")
    ray.get(group.ready())
    found = [
        group.wait(60),
        [{k: float(v) for k, v in spec.items()} for spec in group.bundle_specs],
        placement_group_table(group)["state"],
        group.bundle_count,
    ]
    remove_placement_group(group)
    return found


@stranger("ray#9797", "ValueError")
def a_bundle_that_is_not_there() -> object:
    """A bundle index out of range is a ValueError at the call."""
    group = placement_group([{"CPU": 1}])
    ray.get(group.ready())

    @ray.remote
    def f() -> None: ...

    where = PlacementGroupSchedulingStrategy(placement_group=group, placement_group_bundle_index=3)
    error = raised(lambda: f.options(scheduling_strategy=where).remote())
    remove_placement_group(group)
    return type(error).__name__


@stranger("ray#9796", [1, 1])
def any_bundle() -> object:
    """Without an index a task takes whichever bundle is free: two tasks in two bundles at once."""
    group = placement_group([{"CPU": 1}, {"CPU": 1}])
    ray.get(group.ready())

    @ray.remote(num_cpus=0)
    class Meet:
        n = 0

        def come(self) -> None:
            self.n += 1

        def both(self) -> bool:
            return self.n == 2

    meet = Meet.remote()

    @ray.remote(num_cpus=1)
    def come() -> int:
        ray.get(meet.come.remote())
        while not ray.get(meet.both.remote()):
            time.sleep(0.01)
        return 1

    where = PlacementGroupSchedulingStrategy(placement_group=group)
    found = ray.get([come.options(scheduling_strategy=where).remote() for _ in range(2)])
    remove_placement_group(group)
    return found


@stranger("ray#17524", [True, False])
def children_and_the_group() -> object:
    """A child runs in its parent's group if that was asked for, and outside of it if not."""
    group = placement_group([{"CPU": 2}])
    ray.get(group.ready())

    @ray.remote(num_cpus=1)
    def child() -> bool:
        return get_current_placement_group() is not None

    @ray.remote(num_cpus=1)
    def parent() -> bool:
        return ray.get(child.remote())

    def run(capture: bool) -> bool:
        where = PlacementGroupSchedulingStrategy(
            placement_group=group, placement_group_capture_child_tasks=capture
        )
        return ray.get(parent.options(scheduling_strategy=where).remote())

    found = [run(True), run(False)]
    remove_placement_group(group)
    return found


@stranger("docs: Placement groups, removing", [True, True])
def removing_a_group_ends_its_actors() -> object:
    """Actors of a group that is removed die, and what it held is free again."""
    group = placement_group([{"CPU": 3}])
    ray.get(group.ready())

    @ray.remote(num_cpus=1)
    class A:
        def ping(self) -> None: ...

    a = A.options(
        scheduling_strategy=PlacementGroupSchedulingStrategy(placement_group=group)
    ).remote()
    ray.get(a.ping.remote())
    remove_placement_group(group)

    def dead() -> object:
        try:
            ray.get(a.ping.remote())
        except ray.exceptions.RayActorError as error:
            return error
        return None

    error = until(dead)
    until(lambda: ray.available_resources().get("CPU") == 4.0)
    return [isinstance(error, ray.exceptions.RayActorError), True]


@stranger("forum: a placement group that does not fit", [False, "PENDING"])
def a_group_too_large() -> object:
    """A group that no node can hold stays pending; wait says False in time."""
    group = placement_group([{"CPU": 100}])
    ready = group.wait(0.5)
    state = placement_group_table(group)["state"]
    remove_placement_group(group)
    return [ready, state]


@stranger("docs: Placement groups, names", [True, "ValueError"])
def a_named_group() -> object:
    """A group is found by its name; a name that nobody has is a ValueError."""
    group = placement_group([{"CPU": 1}], name="mine of strangers")
    ray.get(group.ready())
    same = ray.util.get_placement_group("mine of strangers").id == group.id
    remove_placement_group(group)
    error = raised(lambda: ray.util.get_placement_group("nobody's"))
    return [same, type(error).__name__]


@stranger("docs: Placement groups, bad bundles", ["ValueError", "ValueError", "ValueError"])
def bundles_that_make_no_sense() -> object:
    """No bundle, an empty bundle, an unknown strategy are refused at once."""
    errors = [
        raised(lambda: placement_group([])),
        raised(lambda: placement_group([{}])),
        raised(lambda: placement_group([{"CPU": 1}], strategy="ANYWHERE")),
    ]
    return ["ValueError" if isinstance(e, ValueError) else repr(e) for e in errors]


@stranger("docs: NodeAffinitySchedulingStrategy", [True, True])
def on_a_chosen_node() -> object:
    """A task runs on the node that it names; a hard wish for a node that is not there fails."""
    here = ray.get_runtime_context().get_node_id()

    @ray.remote
    def where() -> str:
        return ray.get_runtime_context().get_node_id()

    same = ray.get(
        where.options(
            scheduling_strategy=NodeAffinitySchedulingStrategy(node_id=here, soft=False)
        ).remote()
    )
    nowhere = where.options(
        scheduling_strategy=NodeAffinitySchedulingStrategy(node_id="0" * 56, soft=False)
    ).remote()
    error = raised(lambda: ray.get(nowhere))
    return [same == here, isinstance(error, ray.exceptions.TaskUnschedulableError)]


@stranger("docs: Resources of a cluster", [4.0, 3.0, [1.0]])
def what_is_there_and_what_is_free() -> object:
    """cluster_resources, available_resources and nodes() while an actor holds a CPU."""

    @ray.remote(num_cpus=1)
    class A:
        def assigned(self) -> float:
            return ray.get_runtime_context().get_assigned_resources()["CPU"]

    a = A.remote()
    assigned = ray.get(a.assigned.remote())
    free = until(lambda: ray.available_resources().get("CPU") == 3.0 and 3.0)
    return [ray.cluster_resources()["CPU"], free, [assigned]]


@stranger("forum: several machines in one test", [3, True, "DEAD"], cluster=None)
def a_cluster_in_one_machine() -> object:
    """cluster_utils.Cluster: two nodes are added, tasks spread, one node is removed."""
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    ray.init(address=cluster.address)
    one = cluster.add_node(num_cpus=1, resources={"one": 1})
    cluster.add_node(num_cpus=1, resources={"other": 1})
    cluster.wait_for_nodes()
    count = len([node for node in ray.nodes() if node["Alive"]])

    @ray.remote(num_cpus=0)
    def where() -> str:
        return ray.get_runtime_context().get_node_id()

    a = ray.get(where.options(resources={"one": 0.1}).remote())
    b = ray.get(where.options(resources={"other": 0.1}).remote())
    cluster.remove_node(one)
    until(lambda: any(n["NodeID"] == a and not n["Alive"] for n in ray.nodes()))
    ray.shutdown()
    cluster.shutdown()
    return [count, a != b, "DEAD"]


@stranger("docs: Labels", [True], cluster={"num_cpus": 2, "labels": {"disk": "fast"}})
def labels_choose_a_node() -> object:
    """label_selector runs a task where the label is."""

    @ray.remote(label_selector={"disk": "fast"})
    def where() -> str:
        return ray.get_runtime_context().get_node_id()

    return [ray.get(where.remote()) == ray.get_runtime_context().get_node_id()]


@stranger("docs: GPUs, zero of them", ["", []])
def no_gpu_at_all() -> object:
    """A task without GPUs sees none, and get_gpu_ids is empty."""
    import os

    @ray.remote
    def see() -> list[object]:
        return [os.environ.get("CUDA_VISIBLE_DEVICES") or "", ray.get_gpu_ids()]

    return ray.get(see.remote())


@stranger("docs: GPUs, told ones", [[0], [1], True], cluster={"num_cpus": 4, "num_gpus": 2})
def two_told_gpus() -> object:
    """With num_gpus=2 two tasks get one each; half of one is shared."""
    import os

    @ray.remote(num_gpus=1)
    class A:
        def ids(self) -> list[int]:
            return [int(i) for i in os.environ["CUDA_VISIBLE_DEVICES"].split(",")]

    actors = [A.remote(), A.remote()]
    one, other = sorted(ray.get([a.ids.remote() for a in actors]))
    for actor in actors:
        ray.kill(actor)

    @ray.remote(num_gpus=0.5)
    def half() -> str:
        return os.environ["CUDA_VISIBLE_DEVICES"]

    return [one, other, ray.get(half.remote()) in ("0", "1")]


if __name__ == "__main__":
    main()
