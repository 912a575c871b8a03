"""What public calls of the core raise for bad input: what a program that ran on Ray catches."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import ray
from ray.exceptions import RuntimeEnvSetupError
from ray.runtime_env import RuntimeEnv
from ray.util import list_named_actors, placement_group
from ray.util.metrics import Counter, Gauge, Histogram
from ray.util.scheduling_strategies import (
    In,
    NodeAffinitySchedulingStrategy,
    NodeLabelSchedulingStrategy,
)
from ray.util.state import list_actors

from tests.helpers.harness import wait_until

pytestmark = pytest.mark.usefixtures("ray_start")


@ray.remote
def one() -> int:
    return 1


@pytest.mark.contract("F2.16")
@pytest.mark.parametrize("name", [None, "", 0, [], {}, b"", set(), "nobody"])
def test_an_actor_that_cannot_be_found(name: Any) -> None:
    with pytest.raises(ValueError):
        ray.get_actor(name)


@pytest.mark.contract("F2.16")
@pytest.mark.parametrize("name", [5, ["x"], 1.5, object()])
def test_a_name_of_an_actor_that_is_no_text(name: Any) -> None:
    with pytest.raises(TypeError):
        ray.get_actor(name)


@pytest.mark.contract("F4.17")
@pytest.mark.parametrize("wrong", ["x", 5, [1], True, b"x", lambda: None])
def test_labels_that_are_no_map(wrong: Any) -> None:
    with pytest.raises(ValueError, match="must be a map"):
        NodeLabelSchedulingStrategy(hard=wrong)
    with pytest.raises(ValueError, match="must be a map"):
        NodeLabelSchedulingStrategy(hard={}, soft=wrong)
    with pytest.raises(ValueError, match="both be empty"):
        NodeLabelSchedulingStrategy(hard=None)  # type: ignore[arg-type] # the wrong one
    assert NodeLabelSchedulingStrategy(hard=None, soft={"a": In("b")}).soft  # type: ignore[arg-type]


@pytest.mark.contract("F4.16")
@pytest.mark.parametrize("soft", [0, 1, None, "", "yes", []])
def test_soft_may_be_anything_that_is_true_or_false(soft: Any) -> None:
    here = ray.get_runtime_context().get_node_id()
    strategy = NodeAffinitySchedulingStrategy(here, soft=soft)
    assert strategy.soft is soft or strategy.soft == soft
    assert ray.get(one.options(scheduling_strategy=strategy).remote()) == 1


@pytest.mark.contract("F3.08")
@pytest.mark.parametrize("flag", [0, 1, None, "", "yes", [], object()])
def test_fetch_local_may_be_anything_that_is_true_or_false(flag: Any) -> None:
    ref = one.remote()
    assert ray.wait([ref], fetch_local=flag) == ([ref], [])


@pytest.mark.contract("F1.16")
@pytest.mark.parametrize("flag", [0, 1, None, "", "yes"])
def test_flags_of_cancel_may_be_anything_that_is_true_or_false(flag: Any) -> None:
    @ray.remote(max_retries=0)
    def forever() -> None:
        threading.Event().wait()

    ref = forever.remote()
    ray.cancel(ref, force=flag, recursive=flag)
    with pytest.raises((ray.exceptions.TaskCancelledError, ray.exceptions.WorkerCrashedError)):
        ray.get(ref, timeout=50)


@pytest.mark.contract("F3.08")
@pytest.mark.parametrize("number", [2, 10**9, 10**30])
def test_more_returns_than_there_are(number: int) -> None:
    with pytest.raises(ValueError, match="num_returns"):
        ray.wait([ray.put(1)], num_returns=number)


@pytest.mark.contract("F6.18")
@pytest.mark.parametrize("filters", [5, True, 1.5, "x", [1], [("a", "=")], [("a", "<", 1)]])
def test_filters_that_are_none(filters: Any) -> None:
    with pytest.raises(ValueError):
        list_actors(filters=filters)


@pytest.mark.contract("F2.15")
@pytest.mark.parametrize("number", [-1, -5])
def test_a_negative_number_of_returns_of_a_method(number: int) -> None:
    with pytest.raises(ValueError, match="num_returns"):
        ray.method(num_returns=number)(lambda self: None)


@pytest.mark.contract("F4.12")
@pytest.mark.parametrize("name", [None, 5, [], {}, True])
def test_a_name_of_a_placement_group_that_is_no_text(name: Any) -> None:
    with pytest.raises(TypeError):
        placement_group([{"CPU": 1}], name=name)


@pytest.mark.contract("F7.09", "F0.19")
def test_a_setup_hook_that_cannot_be_sent(ray_down: None) -> None:
    lock = threading.Lock()

    def hook() -> None:
        lock.acquire()

    with pytest.raises(RuntimeEnvSetupError):
        ray.init(num_cpus=1, runtime_env={"worker_process_setup_hook": hook})
    wait_until(lambda: not ray.is_initialized())


@pytest.mark.contract("F0.02")
@pytest.mark.parametrize("number", [float("nan"), 1e15, 10**30])
@pytest.mark.parametrize("keyword", ["num_cpus", "num_gpus"])
def test_a_quantity_that_no_node_can_have(ray_down: None, keyword: str, number: float) -> None:
    with pytest.raises(ValueError, match=r"[CG]PU"):
        ray.init(**{keyword: number})
    assert not ray.is_initialized()


@pytest.mark.contract("F7.01")
@pytest.mark.parametrize("value", [0, 1.5, True, b"x", "x", {1}])
@pytest.mark.parametrize("field", ["config", "excludes", "py_modules"])
def test_fields_of_an_environment_of_another_type(field: str, value: Any) -> None:
    with pytest.raises(TypeError, match=field):
        RuntimeEnv(**{field: value})
    with pytest.raises(TypeError, match=field):
        one.options(runtime_env={field: value})


@pytest.mark.contract("F7.05", "F7.04")
@pytest.mark.parametrize("value", [0, b"", set(), 5])
@pytest.mark.parametrize("field", ["pip", "uv", "working_dir"])
def test_packages_and_folders_of_another_type(field: str, value: Any) -> None:
    with pytest.raises(TypeError, match=field):
        RuntimeEnv(**{field: value})


@pytest.mark.contract("F7.05")
@pytest.mark.parametrize("value", ["", {}])
@pytest.mark.parametrize("field", ["pip", "uv"])
def test_packages_that_are_none(field: str, value: Any) -> None:
    with pytest.raises(ValueError):
        RuntimeEnv(**{field: value})
    assert (
        ray.get(one.options(runtime_env={field: [], "py_modules": [], "config": {}}).remote()) == 1
    )


@pytest.mark.contract("F14.01")
@pytest.mark.parametrize("name", ["", [], b""])
@pytest.mark.parametrize("kind", [Counter, Gauge, Histogram])
def test_a_metric_without_a_name(kind: Any, name: Any) -> None:
    with pytest.raises(ValueError, match="mpty name"):
        kind(name, **({"boundaries": [1]} if kind is Histogram else {}))
    for wrong in (None, 0):
        with pytest.raises(TypeError):
            kind(wrong, **({"boundaries": [1]} if kind is Histogram else {}))


@pytest.mark.contract("F2.16")
@pytest.mark.parametrize("flag", [0, 1, None, "yes"])
def test_whose_names_may_be_asked_with_anything_that_is_true_or_false(flag: Any) -> None:
    assert isinstance(list_named_actors(all_namespaces=flag), list)
