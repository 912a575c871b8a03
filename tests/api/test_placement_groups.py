"""Resources reserved together, in bundles."""

from __future__ import annotations

from typing import Any

import pytest
import ray
from harness import wait_until
from ray.util import (
    get_current_placement_group,
    get_placement_group,
    placement_group,
    placement_group_table,
    remove_placement_group,
)
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

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
        wait_until(lambda: ray.get(member.group.remote(), timeout=20) is None, within=20)


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
