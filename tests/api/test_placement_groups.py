"""Resources reserved together, in bundles."""

from __future__ import annotations

import time
from typing import Any

import pytest
import ray
from ray.util import (
    get_current_placement_group,
    get_placement_group,
    placement_group,
    placement_group_table,
    remove_placement_group,
)
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from tests.helpers.harness import IS_HELIOSTAT, wait_until

pytestmark = pytest.mark.usefixtures("ray_start")

CLUSTER = {"num_cpus": 4, "num_gpus": 2}


@ray.remote
class Member:
    def assigned(self) -> dict[str, float]:
        return dict(ray.get_runtime_context().get_assigned_resources())

    def group(self) -> str | None:
        found: str | None = ray.get_runtime_context().get_placement_group_id()
        return found

    def gpus(self) -> list[Any]:
        return list(ray.get_gpu_ids())


def inside(group: Any, index: int = -1, **more: Any) -> PlacementGroupSchedulingStrategy:
    return PlacementGroupSchedulingStrategy(
        placement_group=group, placement_group_bundle_index=index, **more
    )


def cpus_free() -> float:
    return float(ray.available_resources().get("CPU", 0.0))


@pytest.mark.contract("F4.12", "F4.13")
def test_create_use_and_remove() -> None:
    wait_until(lambda: cpus_free() == 4.0, what="all CPUs free")
    group = placement_group([{"CPU": 1}, {"CPU": 2}])
    ray.get(group.ready(), timeout=20)
    assert group.wait(timeout_seconds=20) is True
    assert group.wait(0) is True
    assert group.bundle_specs == [{"CPU": 1}, {"CPU": 2}]
    assert group.bundle_count == 2
    wait_until(lambda: cpus_free() == 1.0, what="three CPUs reserved")

    @ray.remote(num_cpus=2)
    def where() -> Any:
        return ray.get_runtime_context().get_placement_group_id()

    in_second = where.options(scheduling_strategy=inside(group, 1))
    assert ray.get(in_second.remote(), timeout=20) == group.id.hex()
    remove_placement_group(group)
    wait_until(lambda: cpus_free() == 4.0, what="the reservation is gone")


@pytest.mark.contract("F4.12", "F4.13")
def test_the_default_group_is_that_of_the_caller_if_it_captures() -> None:
    @ray.remote(num_cpus=0)
    def is_inside() -> bool:
        return ray.util.get_current_placement_group() is not None

    @ray.remote(num_cpus=0)
    class Member:
        def is_inside(self) -> bool:
            return ray.util.get_current_placement_group() is not None

    default = PlacementGroupSchedulingStrategy("default")

    @ray.remote(num_cpus=0)
    def asks() -> list[bool]:
        member = Member.options(scheduling_strategy=default).remote()
        none = PlacementGroupSchedulingStrategy(None)
        places = [is_inside.options(scheduling_strategy=s).remote() for s in (default, none)]
        return list(ray.get([*places, member.is_inside.remote()]))

    assert ray.get(asks.remote(), timeout=30) == [False, False, False]
    group = placement_group([{"CPU": 1}])
    for captures, expected in [(True, [True, False, True]), (False, [False, False, False])]:
        strategy = PlacementGroupSchedulingStrategy(
            group, placement_group_capture_child_tasks=captures
        )
        found = ray.get(asks.options(scheduling_strategy=strategy).remote(), timeout=30)
        assert found == expected
    remove_placement_group(group)
    wrong = PlacementGroupSchedulingStrategy("default", placement_group_bundle_index=0)
    with pytest.raises(ValueError, match="bundle index must be -1"):
        is_inside.options(scheduling_strategy=wrong).remote()


@pytest.mark.contract("F4.12")
@pytest.mark.parametrize("strategy", ["PACK", "SPREAD", "STRICT_PACK"])
def test_strategies_that_fit_one_node(strategy: str) -> None:
    group = placement_group([{"CPU": 1}] * 2, strategy=strategy)
    assert group.wait(20)
    remove_placement_group(group)


@pytest.mark.contract("F4.12")
def test_what_cannot_be_placed_waits() -> None:
    for group in (
        placement_group([{"CPU": 1}] * 2, strategy="STRICT_SPREAD"),
        placement_group([{"CPU": 100}]),
    ):
        assert group.wait(timeout_seconds=0.3) is False
        remove_placement_group(group)


@pytest.mark.contract("F4.12")
@pytest.mark.parametrize(
    ("bundles", "options"),
    [
        ([], {}),
        ({"CPU": 1}, {}),
        ([{}], {}),
        ([{"CPU": 0}], {}),
        pytest.param(
            [{"CPU": -1}],
            {},
            marks=pytest.mark.heliostat_only("Ray's control service ends over this"),
        ),
        ([{"CPU": 1}], {"strategy": "SOMEHOW"}),
        ([{"CPU": 1}], {"lifetime": "for ever"}),
        ([{"CPU": 1}], {"topology_strategy": [{"zone": "PACK"}]}),
        ([{"CPU": 1}], {"bundle_label_selector": [{"zone": "a"}, {"zone": "a"}]}),
        ([{"CPU": 1}], {"bundle_label_selector": {"zone": "a"}}),
        ([{"CPU": 1}], {"bundle_label_selector": [{"zone": "in("}]}),
    ],
    ids=str,
)
def test_wrong_bundles_and_options(bundles: Any, options: dict[str, Any]) -> None:
    with pytest.raises((ValueError, TypeError)):
        placement_group(bundles, **options)


@pytest.mark.contract("F4.12", "F4.03", "F2.08")
def test_actors_and_gpus_of_a_bundle() -> None:
    group = placement_group([{"CPU": 1, "GPU": 1}] * 2, strategy="PACK")
    assert group.wait(20)
    members = [
        Member.options(num_cpus=1, num_gpus=1, scheduling_strategy=inside(group, i)).remote()
        for i in range(2)
    ]
    assert sorted(ray.get([m.gpus.remote() for m in members])) == [[0], [1]]
    assert set(ray.get([m.group.remote() for m in members])) == {group.id.hex()}
    remove_placement_group(group)


@pytest.mark.contract("F4.13", "F2.11")
def test_removing_a_group_ends_who_lives_in_it() -> None:
    group = placement_group([{"CPU": 1}])
    member = Member.options(num_cpus=1, scheduling_strategy=inside(group)).remote()
    assert ray.get(member.group.remote(), timeout=20) == group.id.hex()
    remove_placement_group(group)
    with pytest.raises(ray.exceptions.RayError):
        wait_until(lambda: ray.get(member.group.remote(), timeout=20) is None)


@pytest.mark.contract("F4.14")
def test_a_bundle_index_out_of_range() -> None:
    group = placement_group([{"CPU": 1}])
    assert group.wait(20)
    with pytest.raises(ValueError):
        Member.options(scheduling_strategy=inside(group, 5)).remote()
    with pytest.raises(ValueError):
        Member.options(scheduling_strategy=inside(group, -2)).remote()
    remove_placement_group(group)


@pytest.mark.contract("F4.13")
def test_names_and_the_table() -> None:
    group = placement_group([{"CPU": 1}], name="named group")
    assert group.wait(20)
    assert get_placement_group("named group").id == group.id
    with pytest.raises(ValueError):
        get_placement_group("no such group")
    row = placement_group_table(group)
    assert (row["name"], row["state"], row["strategy"]) == ("named group", "CREATED", "PACK")
    assert group.id.hex() in placement_group_table()
    remove_placement_group(group)
    wait_until(lambda: placement_group_table(group)["state"] == "REMOVED")


@pytest.mark.contract("F4.13", "F4.14")
def test_children_stay_in_the_group_only_when_asked() -> None:
    assert get_current_placement_group() is None
    group = placement_group([{"CPU": 2}])
    assert group.wait(20)

    @ray.remote
    def child() -> Any:
        return ray.get_runtime_context().get_placement_group_id()

    @ray.remote
    def parent() -> tuple[Any, Any]:
        current = get_current_placement_group()
        return current and current.id.hex(), ray.get(child.remote())

    alone = parent.options(scheduling_strategy=inside(group)).remote()
    assert ray.get(alone, timeout=20) == (group.id.hex(), None)
    strategy = inside(group, placement_group_capture_child_tasks=True)
    together = parent.options(scheduling_strategy=strategy).remote()
    assert ray.get(together, timeout=20) == (group.id.hex(), group.id.hex())
    remove_placement_group(group)


@pytest.mark.contract("F4.12", "F4.07")
def test_a_group_waits_for_resources_to_come_free() -> None:
    wait_until(lambda: cpus_free() == 4.0, what="all CPUs free")
    first = placement_group([{"CPU": 3}])
    assert first.wait(20)
    second = placement_group([{"CPU": 3}])
    assert second.wait(0.2) is False
    remove_placement_group(first)
    assert second.wait(20)
    remove_placement_group(second)


@pytest.mark.contract("F4.13", "F2.11", "F1.14")
def test_tasks_of_a_removed_group() -> None:
    """One that waits is told; so is one that ran, and one that comes too late."""
    group = placement_group([{"CPU": 1}])
    assert group.wait(20)

    @ray.remote(num_cpus=1, max_retries=0)
    def hold(seconds: float) -> None:
        time.sleep(seconds)

    hold = hold.options(scheduling_strategy=inside(group))
    ray.get(hold.remote(0), timeout=20)
    runs = hold.remote(100)
    waits = [hold.remote(0) for _ in range(3)]
    assert ray.wait([runs, *waits], timeout=0.2)[0] == []
    remove_placement_group(group)
    for ref in waits:
        with pytest.raises(ray.exceptions.TaskPlacementGroupRemoved):
            ray.get(ref, timeout=20)
    with pytest.raises(
        (ray.exceptions.TaskPlacementGroupRemoved, ray.exceptions.WorkerCrashedError)
    ):
        ray.get(runs, timeout=20)
    if IS_HELIOSTAT:  # Ray lets it wait for ever
        with pytest.raises(ray.exceptions.TaskPlacementGroupRemoved):
            ray.get(hold.remote(0), timeout=20)


@pytest.mark.contract("F4.13", "F2.11")
def test_an_actor_that_waits_for_a_group_that_is_removed() -> None:
    group = placement_group([{"CPU": 100}])
    member = Member.options(num_cpus=1, scheduling_strategy=inside(group)).remote()
    call = member.group.remote()
    assert ray.wait([call], timeout=0.2)[0] == []
    remove_placement_group(group)
    expected: tuple[type[Exception], ...] = (ray.exceptions.ActorUnschedulableError,)
    with pytest.raises(expected) as caught:
        ray.get(call, timeout=20)
    if IS_HELIOSTAT:  # it is what Ray documents, too
        assert isinstance(caught.value, ray.exceptions.ActorPlacementGroupRemoved)


@pytest.mark.contract("F4.13")
def test_ready_of_a_removed_group() -> None:
    waits = placement_group([{"CPU": 100}])
    ready = waits.ready()
    remove_placement_group(waits)
    with pytest.raises(ray.exceptions.TaskPlacementGroupRemoved):
        ray.get(ready, timeout=20)
    was = placement_group([{"CPU": 1}])
    assert ray.get(was.ready(), timeout=20) == was
    remove_placement_group(was)
    with pytest.raises(ray.exceptions.TaskPlacementGroupRemoved):
        ray.get(was.ready(), timeout=20)
    remove_placement_group(was)  # once more does no harm


@pytest.mark.contract("F4.12", "F4.13")
def test_a_name_is_taken_while_its_group_is_there() -> None:
    group = placement_group([{"CPU": 1}], name="one")
    with pytest.raises(ray.exceptions.RayError):
        placement_group([{"CPU": 1}], name="one")
    remove_placement_group(group)
    again = placement_group([{"CPU": 1}], name="one")
    assert again.wait(20)
    assert get_placement_group("one") == again
    remove_placement_group(again)


@pytest.mark.contract("F4.14")
@pytest.mark.parametrize("index", [-1, 0])
def test_what_fits_no_bundle_is_refused(index: int) -> None:
    group = placement_group([{"CPU": 1}, {"GPU": 1}])
    strategy = inside(group, index)
    with pytest.raises(ValueError, match="resource request"):
        Member.options(num_cpus=2, scheduling_strategy=strategy).remote()
    remove_placement_group(group)
    devices = placement_group([{"GPU": 1}])
    with pytest.raises(ValueError, match="requires 1 CPU for creation"):
        Member.options(scheduling_strategy=inside(devices, index)).remote()
    remove_placement_group(devices)


@pytest.mark.contract("F4.13", "F4.14", "F4.15")
def test_ways_out_of_a_capturing_group() -> None:
    group = placement_group([{"CPU": 2}])
    assert group.wait(20)

    @ray.remote(num_cpus=0)
    def child() -> bool:
        return ray.get_runtime_context().get_placement_group_id() is not None

    @ray.remote(num_cpus=1)
    def parent() -> dict[str, Any]:
        ways: dict[str, dict[str, Any]] = {
            "nothing": {},
            "default": {"scheduling_strategy": "DEFAULT"},
            "spread": {"scheduling_strategy": "SPREAD"},
            "none": {"scheduling_strategy": PlacementGroupSchedulingStrategy(None)},
        }
        found: dict[str, Any] = {
            way: ray.get(child.options(**options).remote()) for way, options in ways.items()
        }
        member = Member.remote()
        found["actor"] = ray.get(member.group.remote()) is not None
        with pytest.raises(ValueError, match="resource request"):
            child.options(num_cpus=5).remote()
        return found

    strategy = inside(group, 0, placement_group_capture_child_tasks=True)
    found = ray.get(parent.options(scheduling_strategy=strategy).remote(), timeout=40)
    assert found == {
        "nothing": True,
        "default": False,
        "spread": False,
        "none": False,
        "actor": True,
    }
    remove_placement_group(group)


@pytest.mark.contract("F4.12", "F4.18")
def test_a_bundles_resources_have_names_of_their_own() -> None:
    group = placement_group([{"CPU": 1, "GPU": 1}, {"CPU": 2}])
    assert group.wait(20)
    hexed = group.id.hex()
    names = {f"CPU_group_{hexed}": 3.0, f"CPU_group_0_{hexed}": 1.0, f"CPU_group_1_{hexed}": 2.0}
    names[f"bundle_group_{hexed}"] = 2000.0
    names[f"GPU_group_0_{hexed}"] = 1.0
    wait_until(lambda: names.items() <= ray.cluster_resources().items(), what="the names")
    member = Member.options(num_cpus=2, scheduling_strategy=inside(group, 1)).remote()
    assert ray.get(member.assigned.remote(), timeout=20) == {"CPU": 2.0}
    wait_until(lambda: ray.available_resources().get(f"CPU_group_{hexed}") == 1.0)
    remove_placement_group(group)
    wait_until(lambda: not names.keys() & ray.cluster_resources().keys(), what="no names left")


@pytest.mark.contract("F4.12", "F4.03")
def test_parts_of_a_device_in_a_bundle() -> None:
    group = placement_group([{"CPU": 1, "GPU": 1}, {"CPU": 1, "GPU": 0.5}])
    assert group.wait(20)
    halves = [
        Member.options(num_cpus=0, num_gpus=0.5, scheduling_strategy=inside(group, i)).remote()
        for i in (0, 0, 1)
    ]
    first, second, third = ray.get([m.gpus.remote() for m in halves], timeout=40)
    assert first == second
    assert third != first
    remove_placement_group(group)


@pytest.mark.contract("F4.13")
def test_a_handle_travels_and_compares() -> None:
    group = placement_group([{"CPU": 1}, {"CPU": 2}])

    @ray.remote(num_cpus=0)
    def look(group: Any) -> tuple[Any, int, bool]:
        return group, group.bundle_count, group.wait(20)

    back, count, ready = ray.get(look.remote(group), timeout=30)
    assert (back, count, ready) == (group, 2, True)
    assert back.bundle_specs == [{"CPU": 1}, {"CPU": 2}]
    remove_placement_group(back)
    wait_until(lambda: placement_group_table(group)["state"] == "REMOVED")


@pytest.mark.heliostat_only("Ray says nowhere what a group waits for")
def test_a_group_says_what_it_waits_for() -> None:
    """WHY-1: which bundle, which resource, and how much there is."""

    def why(group: Any) -> str:
        return str(placement_group_table(group)["why"])

    too_large = placement_group([{"CPU": 1}, {"CPU": 100}])
    assert not too_large.wait(0.2)
    for part in ("bundle 1 of 2", "100 CPU", "4"):
        assert part in why(too_large)
    assert placement_group_table(too_large)["stats"]["scheduling_state"] == "INFEASIBLE"
    remove_placement_group(too_large)
    wait_until(lambda: cpus_free() == 4.0, what="all CPUs free")
    first = placement_group([{"CPU": 3}])
    assert first.wait(20)
    assert why(first) == ""
    second = placement_group([{"CPU": 2}])
    assert not second.wait(0.2)
    for part in ("bundle 0 of 1", "1 of 4 CPU", "2 CPU"):
        assert part in why(second)
    remove_placement_group(first)
    assert second.wait(20)
    remove_placement_group(second)


@pytest.mark.contract("F4.12", "F4.13")
def test_many_groups_come_and_go() -> None:
    wait_until(lambda: cpus_free() == 4.0, what="all CPUs free")
    for _ in range(3):
        groups = [placement_group([{"CPU": 0.01}] * 2) for _ in range(50)]
        ray.get([group.ready() for group in groups], timeout=60)
        for group in groups:
            remove_placement_group(group)
    wait_until(lambda: cpus_free() == 4.0, what="all CPUs free")
