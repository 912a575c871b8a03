"""Names that Ray keeps private and that libraries use; and what is said of those that are missing."""

from __future__ import annotations

import gc
import importlib
import logging
import pickle
import subprocess
import sys
import time
import weakref
from pathlib import Path
from typing import Any

import cloudpickle
import pytest
import ray

from tests.helpers.harness import wait_until

ours = pytest.mark.heliostat_only("which private names there are is ours to say")


@ray.remote
def slow() -> None:
    time.sleep(0.05)  # so that its caller has to wait


@ray.remote
class Where:
    def mode(self) -> tuple[int, int]:
        return ray._private.worker.global_worker.mode, ray.get_runtime_context().worker.mode

    async def warns(self, silent: bool) -> list[str]:
        """What a blocking `get` on the event loop says."""
        said: list[str] = []

        class Handler(logging.Handler):
            def emit(self, record: logging.LogRecord) -> None:
                said.append(record.getMessage())

        handler = Handler()
        for name in ("ray", "heliostat"):
            logging.getLogger(name).addHandler(handler)
        ray._private.worker.blocking_get_inside_async_warned = silent
        ray.get(slow.remote())
        assert ray._private.worker.blocking_get_inside_async_warned is True
        return [line for line in said if "inside async" in line]


@pytest.mark.contract("F0.23")
def test_the_mode_says_driver_or_worker(ray_start: Any) -> None:
    import ray._private.worker as worker

    assert worker.global_worker.mode == ray.SCRIPT_MODE
    assert ray.get_runtime_context().worker.mode == ray.SCRIPT_MODE

    @ray.remote
    def mode() -> int:
        found: int = ray._private.worker.global_worker.mode
        return found

    assert ray.get(mode.remote()) == ray.WORKER_MODE


def test_the_mode_without_a_session(ray_down: None) -> None:
    import ray._private.worker as worker

    assert worker.global_worker.mode is None


@ours
def test_the_mode_within_an_actor_and_a_warning_that_is_turned_off(ray_start: Any) -> None:
    actor = Where.remote()
    assert ray.get(actor.mode.remote()) == (ray.WORKER_MODE, ray.WORKER_MODE)
    assert ray.get(actor.warns.remote(True)) == []
    assert len(ray.get(actor.warns.remote(False))) == 1


def test_an_actor_and_its_node(ray_start: Any) -> None:
    from ray._private.state import actors

    @ray.remote
    class Named:
        def ping(self) -> None: ...

    actor = Named.options(name="private", num_cpus=0).remote()
    ray.get(actor.ping.remote())
    row = actors(actor._actor_id.hex())
    here = ray.get_runtime_context()
    assert row["ActorID"] == actor._actor_id.hex()
    assert (row["Name"], row["ActorClassName"], row["State"]) == ("private", "Named", "ALIVE")
    assert row["Address"]["NodeID"] == here.get_node_id()
    assert row["Address"]["IPAddress"] == ray.util.get_node_ip_address()
    assert row["JobID"] == here.get_job_id()
    assert row["Pid"] > 0
    every = actors()
    assert every[actor._actor_id.hex()]["Name"] == "private"
    assert actor._actor_id.hex() in actors(actor_state_name="ALIVE")
    assert actor._actor_id.hex() not in actors(actor_state_name="DEAD")


def test_what_is_free_on_each_node(ray_start: Any) -> None:
    import ray._private.state as state

    node = ray.get_runtime_context().get_node_id()
    group = ray.util.placement_group([{"CPU": 1}])
    ray.get(group.ready())
    try:
        total = state.total_resources_per_node()[node]["CPU"]

        def is_taken() -> bool:
            return state.available_resources_per_node()[node].get("CPU", 0) <= total - 1

        wait_until(is_taken, what="the node tells of the bundle")
        table = state.state.placement_group_table(group.id)
        assert table["bundles_to_node_id"] == {0: node}
        assert group.id.hex() in state.state.placement_group_table()
    finally:
        ray.util.remove_placement_group(group)


def test_the_classes_of_ids_are_the_public_ones() -> None:
    raylet = importlib.import_module("ray._raylet")
    for name in ("ObjectRef", "ObjectRefGenerator", "ActorID", "TaskID", "JobID", "NodeID"):
        assert getattr(raylet, name) is getattr(ray, name)


def test_the_node_and_constants() -> None:
    from ray._private.runtime_env.constants import RAY_JOB_CONFIG_JSON_ENV_VAR
    from ray._private.services import get_node_ip_address

    assert get_node_ip_address() == ray.util.get_node_ip_address()
    assert RAY_JOB_CONFIG_JSON_ENV_VAR == "RAY_JOB_CONFIG_JSON_ENV_VAR"


def test_no_session_of_the_older_train() -> None:
    from ray.train._internal.session import get_session

    assert get_session() is None


def test_paths_of_old(ray_start: Any) -> None:
    from ray.util import client

    assert client.ray.is_connected() is False
    with pytest.warns(DeprecationWarning, match="ray.util.state"):
        api = importlib.reload(importlib.import_module("ray.experimental.state.api"))
    assert api.get_actor is ray.util.state.get_actor
    assert ray.worker.global_worker.mode == ray.SCRIPT_MODE
    assert callable(ray.state.actors)


@ours
def test_options_are_listed() -> None:
    from ray._private import ray_option_utils

    assert "label_selector" in ray_option_utils.task_options
    assert "max_restarts" in ray_option_utils.actor_options
    assert {"max_retries", "max_restarts"} <= set(ray_option_utils.valid_options)


@ours
def test_a_summary_of_memory(ray_start: Any) -> None:
    from ray._private.internal_api import memory_summary

    ref = ray.put(b"x" * 3_000_000)
    text = memory_summary(units="MB", num_entries=1)
    line = next(line for line in text.splitlines() if ref.hex() in line)
    assert "2.86 MB" in line
    assert "LOCAL_REFERENCE" in line
    assert memory_summary(stats_only=True).count("\n") == 1
    assert "--- disabled" in memory_summary(group_by="STACK_TRACE", sort_by="PID")
    with pytest.raises(ValueError, match="sort_by must be one of"):
        memory_summary(sort_by="COLOUR")
    del ref


@ours
def test_garbage_of_workers_is_collected(ray_start: Any) -> None:
    from ray._private.internal_api import global_gc

    class Cycle:
        pass

    @ray.remote
    class Holder:
        def drop(self) -> None:
            """Leaves what only the collector frees, which does not run by itself from now on."""
            gc.disable()
            cycle: Any = Cycle()
            cycle.self = cycle
            self.seen = weakref.ref(cycle)

        def is_gone(self) -> bool:
            return self.seen() is None

    holder = Holder.remote()
    ray.get(holder.drop.remote())
    assert not ray.get(holder.is_gone.remote())
    global_gc()
    assert ray.get(holder.is_gone.remote())


def test_pickles_that_ray_wrote_are_read() -> None:
    class Scaler:
        factor = 3

        def scale(self, value: int) -> int:
            return value * self.factor

    # Protocol 2 spells names out: Ray's copy of the package has its own path.
    written = cloudpickle.dumps(Scaler(), protocol=2).replace(
        b"ccloudpickle.cloudpickle\n", b"cray.cloudpickle.cloudpickle\n"
    )
    assert b"ray.cloudpickle" in written
    assert pickle.loads(written).scale(2) == 6
    import ray.cloudpickle.cloudpickle_fast

    assert ray.cloudpickle.cloudpickle_fast.CloudPickler is not None


@ours
def test_the_command_says_the_same(ray_start: Any) -> None:
    ref = ray.put(b"x" * 3_000_000)
    program = Path(sys.executable).with_name("ray")

    def memory(*words: str) -> subprocess.CompletedProcess[str]:
        command = [str(program), "memory", *words]
        return subprocess.run(command, capture_output=True, text=True, timeout=120)

    address = ray.get_runtime_context().gcs_address
    told = memory("--address", address, "--units", "MB", "--sort-by", "REFERENCE_TYPE")
    (line,) = [line for line in told.stdout.splitlines() if ref.hex() in line]
    assert "2.86 MB" in line, told
    assert "LOCAL_REFERENCE" in line
    assert memory("--address", address, "--stats-only").stdout.count("\n") == 1
    groups = memory("--address", address, "--group-by", "STACK_TRACE", "--n", "1").stdout
    assert "--- disabled" in groups
    refused = memory("--address", address, "--units", "XB")
    assert (refused.returncode, "invalid choice: 'XB'" in refused.stderr) == (2, True)
    nowhere = memory("--address", "127.0.0.1:1")
    assert nowhere.returncode == 1
    assert "Traceback" not in nowhere.stderr
    del ref


MISSING = [
    "ray._private.node",
    "ray._private.runtime_env.agent",
    "ray._common.no_such",
    "ray.data._internal.no_such",
]


@ours
@pytest.mark.parametrize("module", MISSING)
def test_a_missing_module_says_that_it_is_private(module: str) -> None:
    with pytest.raises(
        ModuleNotFoundError, match=r"private to Ray .* issue of Heliostat"
    ) as caught:
        importlib.import_module(module)
    assert "\n" not in str(caught.value)
    assert module.startswith(str(caught.value).split()[0])


@ours
def test_a_missing_attribute_says_that_it_is_private() -> None:
    found = []
    for place in (
        ray._private,
        ray._private.worker,
        ray._private.worker.global_worker,
        ray._private.state,
        ray._private.state.state,
        ray._private.services,
        ray._private.utils,
        ray._private.ray_constants,
        ray._private.internal_api,
        ray._raylet,
        ray.worker,
        ray.serialization,
    ):
        with pytest.raises(AttributeError, match=r"private to Ray .* issue of Heliostat") as caught:
            _ = place.no_such_name
        found.append(str(caught.value).split()[0])
    assert all(name.startswith("ray.") and name.endswith(".no_such_name") for name in found)
    with pytest.raises(AttributeError, match=r"ray\._no_such_name is private"):
        _ = ray._no_such_name
    assert not hasattr(ray._private, "no_such_name")


@ours
def test_a_public_name_that_is_missing_is_not_called_private() -> None:
    with pytest.raises(ModuleNotFoundError, match="has no 'no_such_module'"):
        importlib.import_module("ray.no_such_module")


def test_ordinary_names_after_import_ray(run_driver: Any) -> None:
    done = run_driver(
        """
        import ray
        ray.logger.info("hello")
        print("parts=" + " ".join(sorted(n for n in ("util", "experimental", "_private")
                                         if hasattr(ray, n))))
        print("name=" + type(ray.logger).__name__)
        """
    ).check()
    assert done.value("parts") == "_private experimental util"
    assert done.value("name") == "Logger"


@ours
def test_what_sources_of_other_packages_take_from_data() -> None:
    from ray.data._internal.util import _check_import, call_with_retry

    _check_import(object(), module="json", package="json")
    with pytest.raises(ImportError, match="pip install pylance"):
        _check_import(object(), module="not_there_at_all", package="pylance")
    calls: list[int] = []

    def third(word: str) -> str:
        calls.append(1)
        if len(calls) < 3:
            raise OSError("AWS Error SLOW_DOWN")
        return word

    options = {"match": ["AWS Error"], "max_backoff_s": 0}
    assert call_with_retry(third, "read", word="done", **options) == "done"
    assert len(calls) == 3
    with pytest.raises(ZeroDivisionError):
        call_with_retry(lambda: 1 / 0, "divide", **options)
    calls.clear()
    with pytest.raises(OSError, match="SLOW_DOWN"):
        call_with_retry(third, "read", max_attempts=2, word="", **options)
    assert len(calls) == 2
