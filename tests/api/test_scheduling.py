"""Labels, memory and accelerator types: what else decides where a task may run."""

from __future__ import annotations

from typing import Any

import pytest
import ray
from ray.util.accelerators import NVIDIA_TESLA_V100
from ray.util.scheduling_strategies import (
    DoesNotExist,
    Exists,
    In,
    NodeLabelSchedulingStrategy,
    NotIn,
)

from tests.helpers.harness import wait_until

pytestmark = pytest.mark.usefixtures("ray_start")

GIB = 2**30

CLUSTER = {
    "num_cpus": 4,
    "num_gpus": 1,
    "labels": {"zone": "left", "team/part": "a"},
    "resources": {f"accelerator_type:{NVIDIA_TESLA_V100}": 1},
    "_memory": 4 * GIB,
}


@ray.remote
def assigned() -> dict[str, float]:
    return dict(ray.get_runtime_context().get_assigned_resources())


@ray.remote
def labels() -> dict[str, str]:
    return dict(ray.get_runtime_context().get_node_labels())


def runs(task: Any) -> bool:
    """Whether the task gets a place; what does not is taken back."""
    ref = task.remote()
    ready, _ = ray.wait([ref], timeout=0.4)
    if not ready:
        ray.cancel(ref)
    return bool(ready)


@pytest.mark.contract("F4.17", "F4.08", "F4.18")
def test_labels_of_the_node() -> None:
    (node,) = ray.nodes()
    expected = {"zone": "left", "team/part": "a", "ray.io/node-id": node["NodeID"]}
    assert expected.items() <= node["Labels"].items()
    assert expected.items() <= ray.get(labels.remote()).items()


@pytest.mark.contract("F4.17", "F1.14")
@pytest.mark.parametrize(
    ("selector", "fits"),
    [
        ({"zone": "left"}, True),
        ({"zone": "right"}, False),
        ({"zone": "!right"}, True),
        ({"zone": "!left"}, False),
        ({"zone": "in(right,left)"}, True),
        ({"zone": "!in(right,left)"}, False),
        ({"zone": "left", "team/part": "b"}, False),
        ({"unknown": "x"}, False),
    ],
    ids=str,
)
def test_label_selectors(selector: dict[str, str], fits: bool) -> None:
    ray.get(labels.remote())  # a worker is there, so that only the selector decides
    assert runs(labels.options(label_selector=selector)) is fits


@pytest.mark.contract("F4.17", "F1.15")
@pytest.mark.parametrize(
    "selector",
    [{"zone": "in("}, {"a b c": "x"}, {"zone": 5}, {"zone": None}, {"zone": "!"}, {"": "a"}],
    ids=str,
)
def test_wrong_label_selectors(selector: Any) -> None:
    with pytest.raises(ValueError):
        labels.options(label_selector=selector).remote()
    with pytest.raises(TypeError):
        labels.options(label_selector=[selector]).remote()


@pytest.mark.contract("F4.17", "F1.15")
@pytest.mark.parametrize(
    "fallback",
    [[{}], [{"num_cpus": 1}], [{"label_selector": {"zone": "in("}}]],
    ids=str,
)
def test_wrong_fallback_strategies(fallback: Any) -> None:
    with pytest.raises(ValueError):
        labels.options(label_selector={"zone": "left"}, fallback_strategy=fallback).remote()
    with pytest.raises(TypeError):
        labels.options(fallback_strategy={"label_selector": {"zone": "left"}}).remote()


@pytest.mark.contract("F4.17", "F1.14")
@pytest.mark.parametrize(
    ("fallbacks", "fits"),
    [
        ([{"zone": "left"}], True),
        ([{"zone": "up"}, {"team/part": "a"}], True),
        ([{"zone": "up"}], False),
    ],
    ids=str,
)
def test_fallback_selectors(fallbacks: list[dict[str, str]], fits: bool) -> None:
    ray.get(labels.remote())
    fallback = [{"label_selector": selector} for selector in fallbacks]
    task = labels.options(label_selector={"zone": "right"}, fallback_strategy=fallback)
    assert runs(task) is fits


@pytest.mark.contract("F4.19")
@pytest.mark.parametrize(
    ("hard", "soft", "fits"),
    [
        ({"zone": In("right", "left")}, {}, True),
        ({"zone": In("right")}, {}, False),
        ({"zone": NotIn("right")}, {}, True),
        ({"zone": NotIn("left")}, {}, False),
        ({"zone": Exists()}, {}, True),
        ({"floor": Exists()}, {}, False),
        ({"floor": DoesNotExist()}, {}, True),
        ({"zone": DoesNotExist()}, {}, False),
        ({"zone": Exists()}, {"zone": In("right")}, True),
        ({}, {"zone": In("right")}, True),
        ({"zone": In("right")}, {"zone": In("left")}, False),
    ],
)
def test_label_strategies(hard: dict[str, Any], soft: dict[str, Any], fits: bool) -> None:
    ray.get(labels.remote())
    strategy = NodeLabelSchedulingStrategy(hard, soft=soft)
    assert runs(labels.options(scheduling_strategy=strategy)) is fits


@pytest.mark.contract("F4.19")
def test_wrong_label_strategies() -> None:
    with pytest.raises(ValueError):
        NodeLabelSchedulingStrategy({}, soft={})
    with pytest.raises(ValueError):
        In("a", 5)  # type: ignore[arg-type] # wrong on purpose
    with pytest.raises(ValueError):
        NodeLabelSchedulingStrategy({"zone": "left"})


@pytest.mark.contract("F4.17")
def test_actors_follow_labels_too() -> None:
    @ray.remote
    class Actor:
        def ping(self) -> str:
            return "pong"

    here = Actor.options(label_selector={"zone": "left"}).remote()
    assert ray.get(here.ping.remote(), timeout=20) == "pong"
    nowhere = Actor.options(label_selector={"zone": "right"}).remote()
    ref = nowhere.ping.remote()
    assert ray.wait([ref], timeout=0.3)[0] == []
    ray.kill(nowhere)


@pytest.mark.contract("F4.10", "F1.14")
def test_memory_is_a_resource() -> None:
    assert ray.cluster_resources()["memory"] == 4 * GIB
    assert ray.get(assigned.options(memory=GIB).remote())["memory"] == GIB
    assert not runs(assigned.options(memory=5 * GIB))

    @ray.remote(num_cpus=0, memory=3 * GIB)
    class Holder:
        def ready(self) -> bool:
            return True

    holder = Holder.remote()
    assert ray.get(holder.ready.remote())
    wait_until(lambda: ray.available_resources().get("memory") == GIB)
    assert not runs(assigned.options(memory=2 * GIB))
    ray.kill(holder)
    wait_until(lambda: ray.available_resources().get("memory") == 4 * GIB)


@pytest.mark.contract("F4.10", "F1.15")
@pytest.mark.parametrize("name", ["memory", "object_store_memory", "CPU", "GPU"])
def test_what_has_a_keyword_of_its_own_is_no_custom_resource(name: str) -> None:
    with pytest.raises(ValueError, match=name):
        assigned.options(resources={name: 1}).remote()


@pytest.mark.contract("F4.11", "F1.14")
def test_accelerator_types() -> None:
    assert NVIDIA_TESLA_V100 == "V100"
    ray.get(assigned.remote())
    here = assigned.options(accelerator_type=NVIDIA_TESLA_V100, num_gpus=1)
    assert ray.get(here.remote(), timeout=20)["GPU"] == 1.0
    assert not runs(assigned.options(accelerator_type="A100"))


@pytest.mark.contract("F4.16", "F4.15", "F1.15")
@pytest.mark.parametrize("strategy", ["SOMEHOW", 5], ids=str)
def test_wrong_strategies(strategy: Any) -> None:
    with pytest.raises((ValueError, TypeError)):
        assigned.options(scheduling_strategy=strategy).remote()


@pytest.mark.contract("F4.15")
@pytest.mark.parametrize("strategy", ["DEFAULT", "SPREAD", None])
def test_strategies_by_name(strategy: Any) -> None:
    assert ray.get(assigned.options(scheduling_strategy=strategy).remote()) == {"CPU": 1.0}


@pytest.mark.contract("F4.24")
def test_resources_of_a_running_node_cannot_be_set() -> None:
    from ray.experimental import set_resource

    with pytest.raises(DeprecationWarning):
        set_resource("more", 1)


@pytest.mark.contract("F4.25")
@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"num_cpus": 3}, None),
        ({"bundles": [{"CPU": 1}, {"GPU": 0.5}]}, None),
        ({"bundles": [{"CPU": 1}], "bundle_label_selectors": [{"zone": "left"}]}, None),
        ({}, None),
        ({"num_cpus": "three"}, TypeError),
        ({"bundles": 3}, TypeError),
        ({"bundles": [{"CPU": "one"}]}, TypeError),
        ({"bundles": [{"CPU": 1}], "bundle_label_selectors": []}, ValueError),
    ],
    ids=str,
)
def test_requests_for_a_larger_cluster(
    arguments: dict[str, Any], error: type[Exception] | None
) -> None:
    from ray.autoscaler.sdk import request_resources

    if error is None:
        request_resources(**arguments)
    else:
        with pytest.raises(error):
            request_resources(**arguments)


@pytest.mark.contract("F4.25")
@pytest.mark.heliostat_only("Ray keeps the request elsewhere")
def test_the_newest_request_is_kept() -> None:
    import json

    from heliostat import _heliostat
    from ray.autoscaler import sdk

    def kept() -> Any:
        return json.loads(_heliostat.kv_get(sdk.KEY, namespace=sdk.NAMESPACE) or b"")

    sdk.request_resources(num_cpus=2)
    assert kept() == [{"resources": {"CPU": 1}}] * 2
    sdk.request_resources(bundles=[{"GPU": 1}])
    assert kept() == [{"resources": {"GPU": 1}, "label_selector": {}}]
    sdk.request_resources()
    assert kept() == []
