"""What an option is where it is not given stands in one place, and is what the contract says."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest
import ray
from heliostat import _heliostat
from heliostat.core.calls import options
from heliostat.core.calls.actor_handle import OF_CALLS

SHARED: dict[str, Any] = {
    "label_selector": None,
    "fallback_strategy": None,
    "accelerator_type": None,
    "memory": 0,
    "name": None,
    "num_gpus": 0,
    "object_store_memory": None,
    "placement_group": "default",
    "placement_group_bundle_index": -1,
    "placement_group_capture_child_tasks": False,
    "resources": {},
    "runtime_env": None,
    "scheduling_strategy": None,
    "enable_task_events": True,
    "_labels": None,
}
TASK: dict[str, Any] = {
    **SHARED,
    "num_cpus": 1,
    "max_calls": 0,
    "max_retries": 3,
    "num_returns": 1,
    "retry_exceptions": False,
    "_generator_backpressure_num_objects": -1,
    "_num_objects_per_yield": 1,
}
ACTOR: dict[str, Any] = {
    **SHARED,
    "num_cpus": None,
    "allow_out_of_order_execution": None,
    "concurrency_groups": {},
    "enable_tensor_transport": None,
    "get_if_exists": False,
    "lifetime": None,
    "max_concurrency": 1,
    "max_pending_calls": -1,
    "max_restarts": 0,
    "max_task_retries": 0,
    "namespace": None,
    "_actor_generator_backpressure_num_objects": -1,
    "_preload": None,
}
METHOD: dict[str, Any] = {
    "name": None,
    "num_returns": 1,
    "concurrency_group": "",
    "max_task_retries": 0,
    "retry_exceptions": False,
    "_generator_backpressure_num_objects": -1,
    "_num_objects_per_yield": 1,
    "enable_task_events": True,
    "tensor_transport": "object_store",
}

Settled = _heliostat.TaskOptions | _heliostat.ActorOptions | _heliostat.MethodOptions


@pytest.fixture(autouse=True)
def _no_retries_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("HELIOSTAT_TASK_MAX_RETRIES", "RAY_TASK_MAX_RETRIES"):
        monkeypatch.delenv(variable, raising=False)


def task(is_generator: bool = False, **given: Any) -> _heliostat.TaskOptions:
    return _heliostat.TaskOptions(given, is_generator)


def actor(is_async: bool = False, **given: Any) -> _heliostat.ActorOptions:
    return _heliostat.ActorOptions(given, is_async)


def method(
    of: _heliostat.ActorOptions, is_generator: bool = False, **given: Any
) -> _heliostat.MethodOptions:
    return _heliostat.MethodOptions(given, of, is_generator)


def in_effect(settled: Settled) -> dict[str, Any]:
    return {keyword: settled[keyword] for keyword in settled.keywords()}


@pytest.mark.contract("F1.04", "F1.10", "F1.12", "F4.14", "F4.15")
def test_the_defaults_of_a_task() -> None:
    assert in_effect(task()) == TASK
    assert task().resources == {"CPU": 1.0}


@pytest.mark.contract("F2.08", "F2.13", "F2.18")
def test_the_defaults_of_an_actor() -> None:
    assert in_effect(actor()) == ACTOR
    assert (actor().placement_resources, actor().resources) == ({"CPU": 1.0}, {})


@pytest.mark.contract("F2.15")
def test_the_defaults_of_a_method() -> None:
    assert in_effect(method(actor())) == METHOD


def test_what_is_checked_is_what_has_a_default() -> None:
    assert {*_heliostat.TaskOptions.keywords()} == {*options.TASK} == {*TASK}
    assert {*_heliostat.ActorOptions.keywords()} == {*options.ACTOR} == {*ACTOR}
    assert {*_heliostat.MethodOptions.keywords()} == {"name", *options.METHOD} == {*METHOD}
    assert {*OF_CALLS} <= {*ACTOR}
    for settled in (task(), actor(), method(actor())):
        with pytest.raises(KeyError, match="num_cats"):
            settled["num_cats"]


@pytest.mark.parametrize("keyword", sorted({*TASK} - {"placement_group"}))
def test_none_stands_for_the_default_of_a_task(keyword: str) -> None:
    assert task(**{keyword: None})[keyword] == TASK[keyword]


@pytest.mark.parametrize("keyword", sorted({*ACTOR} - {"placement_group"}))
def test_none_stands_for_the_default_of_an_actor(keyword: str) -> None:
    assert actor(**{keyword: None})[keyword] == ACTOR[keyword]


@pytest.mark.contract("F1.18")
def test_no_placement_group_is_another_thing_than_the_callers() -> None:
    assert task(placement_group=None)["placement_group"] is None
    assert actor(placement_group=None)["placement_group"] is None


@pytest.mark.contract("F1.09")
def test_generators_stream() -> None:
    assert task(is_generator=True)["num_returns"] == "streaming"
    assert method(actor(), is_generator=True)["num_returns"] == "streaming"
    assert task(is_generator=True, num_returns=2)["num_returns"] == 2


@pytest.mark.contract("F1.04")
def test_a_worker_with_a_gpu_runs_one_call() -> None:
    assert task(num_gpus=0.5)["max_calls"] == 1
    assert task(num_gpus=1, max_calls=0)["max_calls"] == 0
    assert task(num_gpus=1, max_calls=None)["max_calls"] == 1


@pytest.mark.contract("F1.10")
def test_the_environment_says_how_often_is_retried(monkeypatch: pytest.MonkeyPatch) -> None:
    plain, given = task(), task(max_retries=5)
    monkeypatch.setenv("RAY_TASK_MAX_RETRIES", "7")
    assert (plain["max_retries"], given["max_retries"]) == (7, 5)
    monkeypatch.setenv("RAY_TASK_MAX_RETRIES", "often")
    with pytest.raises(ValueError, match="RAY_TASK_MAX_RETRIES"):
        plain["max_retries"]


@pytest.mark.contract("F2.08")
@pytest.mark.parametrize(
    ("given", "placing", "held"),
    [
        ({"memory": 5.5}, {"CPU": 1.0, "memory": 5.0}, {"memory": 5.0}),
        ({"num_gpus": 2}, {"CPU": 1.0, "GPU": 2.0}, {"CPU": 1.0, "GPU": 2.0}),
        ({"num_gpus": 0}, {"CPU": 1.0}, {"CPU": 1.0}),
        ({"num_cpus": 0}, {}, {}),
        ({"num_cpus": None}, {"CPU": 1.0}, {}),
        ({"resources": {"a": 0.5, "b": 0}}, {"CPU": 1.0, "a": 0.5}, {"CPU": 1.0, "a": 0.5}),
    ],
)
def test_an_actor_that_names_a_resource_holds_a_cpu(
    given: dict[str, Any], placing: dict[str, float], held: dict[str, float]
) -> None:
    assert (actor(**given).placement_resources, actor(**given).resources) == (placing, held)


@pytest.mark.contract("F2.12", "F2.13")
def test_an_async_actor_runs_many_calls_in_any_order() -> None:
    for nothing in ({}, {"max_concurrency": None}, {"max_concurrency": 0}):
        assert actor(is_async=True, **nothing)["max_concurrency"] == 1000
        assert actor(**nothing)["max_concurrency"] == 1
    assert actor(is_async=True, max_concurrency=1)["max_concurrency"] == 1
    assert actor(is_async=True, max_concurrency=1).is_unordered
    assert actor(max_concurrency=2).is_unordered
    assert actor(allow_out_of_order_execution=True).is_unordered
    assert not actor().is_unordered


@pytest.mark.contract("F2.15")
def test_a_method_has_what_its_actor_has() -> None:
    of = actor(
        max_task_retries=4, enable_task_events=False, _actor_generator_backpressure_num_objects=2
    )
    inherited = ("max_task_retries", "enable_task_events", "_generator_backpressure_num_objects")
    assert [method(of)[keyword] for keyword in inherited] == [4, False, 2]
    own = dict(zip(inherited, [0, True, -1], strict=True))
    assert {keyword: method(of, **own)[keyword] for keyword in inherited} == own
    nothing = dict.fromkeys(inherited)
    assert [method(of, **nothing)[keyword] for keyword in inherited] == [4, False, 2]


@pytest.mark.contract("F1.07", "F1.10")
def test_none_in_options_is_the_default_and_not_the_decorations() -> None:
    @ray.remote(max_retries=0, num_returns=2, num_cpus=3)
    def function() -> None: ...

    optioned = function.options(max_retries=None, num_returns=None)
    settled = optioned._settled
    assert (settled["max_retries"], settled["num_returns"], settled["num_cpus"]) == (3, 1, 3)


@pytest.mark.contract("F2.15")
def test_none_in_a_methods_options_keeps_the_decorations() -> None:
    from heliostat.core.calls.actor_handle import Method, _with_options

    decorated = Method("m", (), False, (("num_returns", 2), ("max_task_retries", 5)))
    changed = _with_options(decorated, {"num_returns": None, "name": "", "max_task_retries": 1})
    assert dict(changed.options) == {"num_returns": 2, "max_task_retries": 1}


@pytest.mark.parametrize("keyword", ["max_retries", "max_calls"])
def test_a_number_that_is_too_large_is_named(keyword: str) -> None:
    with pytest.raises(OverflowError, match=f"'{keyword}'.* 1000000000000"):
        task(**{keyword: 10**12})


def _stated(tree: ast.AST) -> list[str]:
    """Keywords beside which a default stands: ``options.get("x", 1)`` and ``options.get("x") or 1``."""
    found = []
    for node in ast.walk(tree):
        others: list[ast.expr] = []
        if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or):
            node, *others = node.values
        if not isinstance(node, ast.Call) or not node.args:
            continue
        keyword = node.args[0]
        if isinstance(node.func, ast.Attribute) and node.func.attr == "get":
            others += node.args[1:]
            if isinstance(keyword, ast.Constant) and any(
                isinstance(other, ast.Constant | ast.UnaryOp) and ast.unparse(other) != "None"
                for other in others
            ):
                found.append(str(keyword.value))
    return found


def test_python_states_no_default() -> None:
    seen = _stated(
        ast.parse("a = o.get('name', 1); b = o.get('memory') or -1; c = o.get('name', a)")
    )
    assert seen == ["name", "memory"]
    assert options.__file__ is not None
    for path in sorted(Path(options.__file__).parent.glob("*.py")):
        if (
            path.name in ("options.py", "remote_function.py", "scheduling.py")
            or "actor" in path.name
        ):
            assert not {*_stated(ast.parse(path.read_text()))} & {*TASK, *ACTOR, *METHOD}, path
