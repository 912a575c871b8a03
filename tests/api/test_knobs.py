"""Knobs of Ray's runtime: ``_system_config`` and ``RAY_x``, labels of the environment."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import ray

MIB = 1 << 20


def files(folder: Path) -> list[str]:
    return [name for _, _, names in os.walk(folder) for name in names]


@pytest.mark.contract("F0.11", "F3.06")
@pytest.mark.parametrize("by", ["text", "dictionary", "variable", "list"])
@pytest.mark.heliostat_only("Ray takes the JSON only, and makes a folder of its own there")
def test_object_spilling_config_names_the_folder(
    ray_fresh: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    path: Any = [str(tmp_path)] if by == "list" else str(tmp_path)
    config: Any = {"type": "filesystem", "params": {"directory_path": path}}
    given: dict[str, Any] = {"object_spilling_config": json.dumps(config)}
    if by == "dictionary":
        given = {"object_spilling_config": config}
    if by == "variable":
        monkeypatch.setenv("RAY_object_spilling_config", given.popitem()[1])
    ray_fresh(num_cpus=1, object_store_memory=80 * MIB, _system_config=given or None)
    refs = [ray.put(np.full(20 * MIB, i, np.uint8)) for i in range(8)]
    assert [int(ray.get(ref)[5]) for ref in refs] == list(range(8))
    assert files(tmp_path)


@pytest.mark.contract("F0.11")
@pytest.mark.heliostat_only("Ray's node does not start, and says so in its log")
@pytest.mark.parametrize(
    ("config", "says"),
    [
        ({"a": 1}, "unknown key 'a'"),
        ({"max_io_wokers": 1}, "Did you mean 'max_io_workers'"),
        ({"redis_db_connect_retrys": 1}, "Did you mean 'redis_db_connect_retries'"),
        ({"object_spilling_config": '{"type": "tape"}'}, "Unknown external storage type: tape"),
        ({"object_spilling_config": "{"}, "directory_path"),
        ({"object_spilling_config": '{"type": "filesystem"}'}, "directory_path is a folder"),
    ],
    ids=str,
)
def test_what_cannot_be_meant_is_refused(ray_down: None, config: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        ray.init(address="local", _system_config=config)
    assert not ray.is_initialized()


@pytest.mark.contract("F0.11")
@pytest.mark.heliostat_only("Ray's own knobs")
def test_a_knob_without_effect_is_named_with_the_reason(
    ray_fresh: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_num_heartbeats_timeout", "1")
    ray_fresh(num_cpus=1, _system_config={"min_spilling_size": 4, "max_io_workers": 2})
    assert "min_spilling_size (spilled objects are one file each" in caplog.text
    assert "num_heartbeats_timeout (health_check_failure_threshold says" in caplog.text
    assert "max_io_workers" not in caplog.text


@pytest.mark.contract("F0.11")
@pytest.mark.heliostat_only("Ray's own knobs")
def test_every_knob_of_ray_is_taken(ray_down: None, caplog: pytest.LogCaptureFixture) -> None:
    from heliostat.core.driver import ray_config, ray_config_names

    as_it_is = {"gcs_storage": "memory", "external_storage_namespace": "default"}
    given = dict.fromkeys(ray_config_names.IDLE, 0) | as_it_is
    assert {"task_retry_delay_ms", "redis_retry_max_ms", "grpc_keepalive_time_ms"} <= set(given)
    assert ray_config.check(given) == given
    (warning,) = [record.getMessage() for record in caplog.records]
    assert "\n" not in warning
    assert all(name in warning for name in given)


@pytest.mark.contract("F0.11", "F7.02")
@pytest.mark.heliostat_only("Ray's workers are nice by 15 without being asked")
@pytest.mark.parametrize("by", ["environment", "_system_config", "runtime_env"])
def test_workers_are_as_nice_as_is_said(
    ray_fresh: Any, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    options: dict[str, Any] = {}
    if by == "environment":
        monkeypatch.setenv("RAY_worker_niceness", "7")
    elif by == "_system_config":
        options = {"_system_config": {"worker_niceness": 7}}
    else:
        options = {"runtime_env": {"env_vars": {"RAY_worker_niceness": "7"}}}
    ray_fresh(num_cpus=1, **options)
    before = os.nice(0)
    assert ray.get(ray.remote(os.nice).remote(0)) == min(before + 7, 19)


@pytest.mark.contract("F0.11")
@pytest.mark.heliostat_only("Ray's node takes them, and works or not")
@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("max_io_workers", 0, 'max_io_workers="0": give a whole number from 1'),
        ("max_io_workers", "two", 'max_io_workers="two": give a whole number from 1'),
        ("health_check_period_ms", 0, "health_check_period_ms=.* from 1 to .*ms"),
        ("health_check_failure_threshold", 0, "health_check_failure_threshold=.* from 1 "),
        ("health_check_timeout_ms", -1, "health_check_timeout_ms=.* from 0 .*ms"),
        ("health_check_initial_delay_ms", "1 s", "health_check_initial_delay_ms=.* from 0 .*ms"),
        ("local_fs_capacity_threshold", 95, "local_fs_capacity_threshold=.* from 0 to 1"),
        ("oom_grace_period_s", -1, "oom_grace_period_s=.* from 0 .*s"),
        ("max_task_args_memory_fraction", 70, "max_task_args_memory_fraction=.* from 0 to 1"),
    ],
)
def test_values_that_no_node_can_have_are_refused(
    ray_fresh: Any, name: str, value: Any, says: str
) -> None:
    with pytest.raises(Exception, match=says):
        ray_fresh(num_cpus=1, _system_config={name: value})
    assert not ray.is_initialized()


@pytest.mark.contract("F0.11", "F3.06")
@pytest.mark.parametrize("workers", [1, 8])
def test_any_number_of_objects_may_be_spilled_at_a_time(
    ray_fresh: Any, tmp_path: Path, workers: int
) -> None:
    ray_fresh(
        num_cpus=1,
        object_store_memory=80 * MIB,
        object_spilling_directory=str(tmp_path),
        _system_config={"max_io_workers": workers},
    )
    refs = [ray.put(np.full(10 * MIB, i, np.uint8)) for i in range(16)]
    assert [int(ray.get(ref)[5]) for ref in refs] == list(range(16))
    assert files(tmp_path)


@pytest.mark.contract("F0.11", "F15.09")
@pytest.mark.heliostat_only("Ray imports them in each worker, when the first call has begun")
@pytest.mark.parametrize("by", ["config", "variable"])
def test_workers_have_the_modules_that_are_to_be_preloaded(
    ray_fresh: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    (tmp_path / "made_ready.py").write_text("import os\nPID = os.getpid()\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    names = ["made_ready", "no_such_module", "colorsys"]
    given: Any = {"preload_python_modules": names}
    if by == "variable":
        monkeypatch.setenv("RAY_preload_python_modules", ", ".join(names))
        given = None
    ray_fresh(num_cpus=1, _system_config=given)

    @ray.remote
    def loaded() -> tuple[bool, int, int]:
        import made_ready  # type: ignore[import-not-found]

        return "colorsys" in sys.modules, made_ready.PID, os.getpid()

    has_other, made_in, ran_in = ray.get(loaded.remote())
    assert has_other
    assert made_in != ran_in, "it was loaded once, before the worker was forked"


@pytest.mark.contract("F0.11", "F15.09")
@pytest.mark.parametrize("by", ["config", "variable"])
def test_what_acts_reaches_the_daemon_and_this_process(
    ray_fresh: Any, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    config = {"memory_usage_threshold": 1.5}
    if by == "variable":
        monkeypatch.setenv("RAY_memory_usage_threshold", "1.5")
    with pytest.raises(Exception, match=r"memory_usage_threshold|startup|start"):
        ray_fresh(num_cpus=1, _system_config=config if by == "config" else None)
    assert not any(name.startswith("HELIOSTAT_memory") for name in os.environ)


@pytest.mark.contract("F4.17")
def test_labels_with_the_prefix_of_ray_and_of_the_environment(
    ray_fresh: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_OVERRIDE_LABELS", json.dumps({"zone": "b", "team": "x"}))
    ray_fresh(num_cpus=1, labels={"zone": "a", "ray.io/market-type": "spot"})
    labels = ray.nodes()[0]["Labels"]
    expected = {"zone": "b", "team": "x", "ray.io/market-type": "spot"}
    assert expected.items() <= labels.items()
    pinned = ray.remote(lambda: 1).options(label_selector={"ray.io/market-type": "spot"})
    assert ray.get(pinned.remote(), timeout=30) == 1


@pytest.mark.contract("F4.17")
@pytest.mark.heliostat_only("Ray's node does not start")
@pytest.mark.parametrize("text", ["no json", '{"a": 1}', '{"ray.io/node-id": "x"}', "[]"])
def test_wrong_labels_of_the_environment_are_refused(
    ray_down: None, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setenv("RAY_OVERRIDE_LABELS", text)
    with pytest.raises((ValueError, TypeError)):
        ray.init(address="local", num_cpus=1)


@pytest.mark.contract("F0.06")
@pytest.mark.parametrize("size", [1e8, 1e8 + 0.5])
def test_the_size_of_the_store_may_be_a_float(ray_fresh: Any, size: float) -> None:
    ray_fresh(num_cpus=1, object_store_memory=size)
    assert ray.cluster_resources()["object_store_memory"] == 100_000_000


@pytest.mark.contract("F0.06")
@pytest.mark.parametrize("size", ["100000000", float("nan"), True])
def test_what_is_no_size_of_a_store_is_refused(ray_down: None, size: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        ray.init(address="local", num_cpus=1, object_store_memory=size)
