"""Made-up accelerators of every kind: which ids a task or an actor gets, and which variable shows them."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest
import ray
from ray.util.placement_group import placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from tests.helpers.harness import wait_until

pytestmark = pytest.mark.usefixtures("ray_start")

# The resource, the variable, and how it writes devices 0 and 1.
KINDS = [
    ("neuron_cores", "NEURON_RT_VISIBLE_CORES", "0,1"),
    ("TPU", "TPU_VISIBLE_CHIPS", "0,1"),
    ("HPU", "HABANA_VISIBLE_MODULES", "0,1"),
    ("NPU", "ASCEND_RT_VISIBLE_DEVICES", "0,1"),
    ("RBLN", "RBLN_DEVICES", "0,1"),
    ("FURIOSA", "FURIOSA_DEVICES", "npu:0,npu:1"),
    ("MBLT", "QBRUNTIME_VISIBLE_DEVICES", "0,1"),
    ("TTNPU", "TT_VISIBLE_DEVICES", "0,1"),
]
TPU_BOUNDS = ("TPU_CHIPS_PER_HOST_BOUNDS", "TPU_HOST_BOUNDS")

CLUSTER = {"num_cpus": 2, "num_gpus": 1, "resources": {kind: 2.0 for kind, _, _ in KINDS}}


def look(kind: str, variable: str) -> tuple[list[str], str | None]:
    return ray.get_runtime_context().get_accelerator_ids()[kind], os.environ.get(variable)


@ray.remote(num_cpus=0)
def task(kind: str, variable: str) -> tuple[list[str], str | None]:
    return look(kind, variable)


@ray.remote(num_cpus=0)
class Holder:
    def look(self, kind: str, variable: str) -> tuple[list[str], str | None]:
        return look(kind, variable)


def all_free() -> bool:
    free = ray.available_resources()
    return all(free.get(kind) == 2.0 for kind, _, _ in KINDS)


@pytest.mark.contract("F4.02", "F4.08", "F4.21")
@pytest.mark.parametrize(("kind", "variable", "both"), KINDS)
def test_a_task_has_the_ids_of_its_devices_and_sees_only_those(
    kind: str, variable: str, both: str
) -> None:
    wait_until(all_free, what="all devices free")
    asked = task.options(resources={kind: 2})
    assert ray.get(asked.remote(kind, variable)) == (["0", "1"], both)
    # The next task on the worker sees what the worker was started with.
    assert ray.get(task.remote(kind, variable)) == ([], os.environ.get(variable))


@pytest.mark.contract("F4.02", "F4.08", "F4.21")
@pytest.mark.parametrize(("kind", "variable", "both"), KINDS)
def test_actors_have_devices_of_their_own(kind: str, variable: str, both: str) -> None:
    wait_until(all_free, what="all devices free")
    holders = [Holder.options(resources={kind: 1}).remote() for _ in range(2)]
    seen = ray.get([holder.look.remote(kind, variable) for holder in holders])
    assert sorted(ids for ids, _ in seen) == [["0"], ["1"]]
    for ids, visible in seen:
        assert visible == both.split(",")[int(ids[0])]


@pytest.mark.contract("F4.08")
def test_kinds_that_a_call_did_not_ask_for_have_no_ids() -> None:
    @ray.remote(num_cpus=0, resources={"HPU": 1})
    def ids() -> dict[str, list[str]]:
        return dict(ray.get_runtime_context().get_accelerator_ids())

    found = ray.get(ids.remote())
    assert set(found) == {"GPU", *(kind for kind, _, _ in KINDS)}
    assert [kind for kind, has in found.items() if has] == ["HPU"]


@pytest.mark.contract("F4.02", "F4.21")
def test_parts_of_a_device_share_it() -> None:
    wait_until(all_free, what="all devices free")
    holders = [Holder.options(resources={"NPU": 0.5}).remote() for _ in range(2)]
    look = [h.look.remote("NPU", "ASCEND_RT_VISIBLE_DEVICES") for h in holders]
    assert ray.get(look) == [(["0"], "0"), (["0"], "0")]


@pytest.mark.contract("F4.02", "F4.21")
@pytest.mark.parametrize(
    ("kind", "quantity"), [("neuron_cores", 1.5), ("HPU", 0.5), ("TPU", 3), ("TPU", 0.5)]
)
def test_quantities_that_a_kind_does_not_come_in_are_refused(kind: str, quantity: float) -> None:
    with pytest.raises(ValueError, match=kind):
        task.options(resources={kind: quantity}).remote(kind, "")


@pytest.mark.contract("F4.03")
@pytest.mark.parametrize(("chips", "bounds"), [(1, "1,1,1"), (2, "1,2,1")])
def test_programs_on_a_part_of_a_tpu_host_know_its_bounds(chips: int, bounds: str) -> None:
    @ray.remote(num_cpus=0, resources={"TPU": chips})
    def known() -> list[str | None]:
        return [os.environ.get(name) for name in TPU_BOUNDS]

    assert ray.get(known.remote()) == [bounds, "1,1,1"]


@pytest.mark.contract("F4.03", "F5.01")
def test_a_bundle_lends_its_devices() -> None:
    wait_until(all_free, what="all devices free")
    group = placement_group([{"CPU": 1, "neuron_cores": 1}])
    ray.get(group.ready())
    inside: Any = PlacementGroupSchedulingStrategy(group)
    asked = task.options(resources={"neuron_cores": 1}, scheduling_strategy=inside)
    ids, visible = ray.get(asked.remote("neuron_cores", "NEURON_RT_VISIBLE_CORES"))
    assert ids in (["0"], ["1"])
    assert visible == ids[0]
    remove_placement_group(group)


@pytest.mark.contract("F4.02", "F4.03")
def test_a_call_may_have_devices_of_two_kinds() -> None:
    wait_until(all_free, what="all devices free")

    @ray.remote(num_cpus=0, num_gpus=1, resources={"NPU": 1})
    def both() -> tuple[list[str], list[str], str | None, str | None]:
        ids = ray.get_runtime_context().get_accelerator_ids()
        shown = [os.environ.get(name) for name in ("CUDA_VISIBLE_DEVICES", KINDS[3][1])]
        return ids["GPU"], ids["NPU"], shown[0], shown[1]

    assert ray.get(both.remote()) == (["0"], ["0"], "0", "0")


NODE_THAT_SEES_SOME = """
import os
import subprocess
import sys
import ray

ray.init(num_cpus=1, resources={"neuron_cores": 2})

@ray.remote(num_cpus=0, resources={"neuron_cores": 1})
class Holder:
    def look(self):
        ids = ray.get_runtime_context().get_accelerator_ids()["neuron_cores"]
        return ids, os.environ["NEURON_RT_VISIBLE_CORES"]

holders = [Holder.remote() for _ in range(2)]
print(sorted(ray.get([holder.look.remote() for holder in holders])))
ray.shutdown()
try:
    ray.init(num_cpus=1, resources={"neuron_cores": 3})
except ValueError as error:
    print(error)
"""


@pytest.mark.contract("F4.02", "F4.21")
def test_a_node_hands_out_what_its_own_variable_names() -> None:
    environment = {**os.environ, "NEURON_RT_VISIBLE_CORES": "4,7"}
    done = subprocess.run(
        [sys.executable, "-c", NODE_THAT_SEES_SOME],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    first, second = done.stdout.splitlines()
    assert first == "[(['4'], '4'), (['7'], '7')]"
    assert "NEURON_RT_VISIBLE_CORES names only 2" in second
