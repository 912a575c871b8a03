"""Deployments that do the tasks of queues of Celery's and Taskiq's, in a Redis or in files."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ray import serve
from ray.serve.schema import CeleryAdapterConfig, TaskProcessorConfig, TaskResult
from ray.serve.task_consumer import instantiate_adapter_from_config, task_consumer, task_handler

from tests.helpers.harness import wait_until
from tests.helpers.serving import Client
from tests.helpers.stores import Redis, why_no_redis

EXTRA = "the extra `serve-async-inference` brings it"
pytest.importorskip("celery", reason=EXTRA)
pytest.importorskip("taskiq_redis", reason=EXTRA)

CLUSTER = {"num_cpus": 4}
S = 60
pytestmark = [
    pytest.mark.contract("F12.08"),
    pytest.mark.heliostat_only("Ray's adapter to Taskiq has no methods yet"),
    pytest.mark.skipif(bool(why_no_redis()), reason=why_no_redis()),
    # Celery and kombu leave sockets of theirs to the collector.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(scope="module")
def redis() -> Iterator[Redis]:
    server = Redis()
    yield server
    server.close()


def queue_of(kind: str, redis: Redis, folder: Path, name: str) -> TaskProcessorConfig:
    """A queue of that kind, and those of its failed and unprocessable tasks."""
    url = f"redis://{redis.address}"
    more: dict[str, Any] = {}
    if kind == "celery":
        adapter: Any = CeleryAdapterConfig(broker_url=f"{url}/0", backend_url=f"{url}/1")
    elif kind == "files":
        for one in ("queue", "control", "results"):
            (folder / one).mkdir()
        there = {"data_folder_in": str(folder / "queue"), "data_folder_out": str(folder / "queue")}
        adapter = CeleryAdapterConfig(
            broker_url="filesystem://",
            backend_url=f"file://{folder / 'results'}",
            broker_transport_options={**there, "control_folder": str(folder / "control")},
        )
    else:
        from ray.serve.taskiq_task_processor import TaskiqAdapterConfig

        adapter = TaskiqAdapterConfig(
            broker_type=kind, broker_kwargs={"url": f"{url}/2"}, result_backend_url=f"{url}/3"
        )
        more = {"adapter": "ray.serve.taskiq_task_processor.TaskiqTaskProcessorAdapter"}
    return TaskProcessorConfig(
        queue_name=name,
        adapter_config=adapter,
        max_retries=1,
        failed_task_queue_name=f"{name}-failed",
        unprocessable_task_queue_name=f"{name}-unknown",
        **more,
    )


class Ended:
    """Waits for what becomes of tasks."""

    def __init__(self, queue: Any) -> None:
        self.queue = queue

    def __call__(self, task: TaskResult) -> TaskResult:
        def ended() -> Any:
            found = self.queue.get_task_status_sync(task.id)
            return found if found.status in ("SUCCESS", "FAILURE", "REVOKED") else None

        return wait_until(ended, within=S, what=f"the end of {task}")


@pytest.mark.parametrize("kind", ["celery", "files", "redis_stream", "redis_list"])
def test_tasks_are_done(web: Client, redis: Redis, tmp_path: Path, kind: str) -> None:
    """Results, a handler that fails once and one that always does, no handler, a task that was cancelled."""
    config = queue_of(kind, redis, tmp_path, f"q-{kind}")
    gate = tmp_path / "gate"
    marks = tmp_path / "marks"
    marks.mkdir()

    @serve.deployment(max_ongoing_requests=2)
    @task_consumer(task_processor_config=config)
    class Worker:
        def __init__(self, plus: int) -> None:
            self.plus = plus

        @task_handler(name="sum")
        def add(self, one: int, other: int = 0) -> int:
            return one + other + self.plus

        @task_handler
        def once(self) -> str:
            if not (marks / "once").exists():
                (marks / "once").touch()
                raise OSError("the first time")
            return "the second time"

        @task_handler
        def never(self, what: str) -> None:
            with (marks / "never").open("a") as file:
                file.write(f"{what}\n")
            raise ValueError(f"no {what}")

        @task_handler
        def held(self, name: str) -> str:
            (marks / name).touch()
            while not gate.exists():
                time.sleep(0.01)
            return name

    queue = instantiate_adapter_from_config(config)
    ended = Ended(queue)
    # Also what was sent before there is a replica.
    early = queue.enqueue_task_sync("sum", args=[1])
    assert early.status == "PENDING"
    handle = serve.run(Worker.bind(100), route_prefix=None)
    assert ended(early).result == 101
    tasks = [queue.enqueue_task_sync("sum", kwargs={"one": n, "other": 1}) for n in range(10)]
    once, never = queue.enqueue_task_sync("once"), queue.enqueue_task_sync("never", args=["way"])
    assert [ended(task).result for task in tasks] == [101 + n for n in range(10)]
    assert ended(once).result == "the second time"
    found = ended(never)
    assert (found.status, str(found.result)) == ("FAILURE", "no way")
    assert (marks / "never").read_text() == "way\n" * 2
    unknown = queue.enqueue_task_sync("nobody", args=[7])
    assert ended(unknown).status == "FAILURE"

    # What becomes of those two: another consumer may do something about them.
    for where, name, first in (
        (config.failed_task_queue_name, "never", never.id),
        (config.unprocessable_task_queue_name, "nobody", "nobody"),
    ):
        seen: list[Any] = []
        left = config.model_copy(
            update={
                "queue_name": where,
                "failed_task_queue_name": None,
                "unprocessable_task_queue_name": None,
            }
        )
        other = instantiate_adapter_from_config(left)

        def take(*said: str, seen: list[Any] = seen) -> None:
            seen.append(said)

        other.register_task_handle(take, name)
        other.start_consumer()
        wait_until(lambda seen=seen: seen, within=S, what=f"a task in {where}")
        other.stop_consumer()
        assert len(seen) == 1
        assert len(seen[0]) == 5
        assert seen[0][0] == first
        assert {"never": "no way", "nobody": unknown.id}[name] == seen[0][1]

    # Two at a time. The third is cancelled before it begins.
    held = [queue.enqueue_task_sync("held", args=[f"h{n}"]) for n in range(2)]
    wait_until(lambda: all((marks / f"h{n}").exists() for n in range(2)), within=S, what="two")
    third = queue.enqueue_task_sync("held", args=["third"])
    queue.cancel_task_sync(third.id)
    assert list(queue.health_check_sync()[0].values()) == [{"ok": "pong"}]
    assert queue.get_metrics_sync()
    if kind == "celery":  # of which an answer says that the worker has heard
        name = next(iter(queue.get_metrics_sync()))
        assert queue._app.control.inspect().revoked()[name] == [third.id]
    gate.touch()
    assert [ended(task).result for task in held] == ["h0", "h1"]
    if kind != "files":
        assert ended(third).status == "REVOKED"
        assert not (marks / "third").exists()
    # It stops with its replica, with which handles have nothing to do here.
    assert handle.deployment_name == "Worker"
    serve.delete("default")
    late = queue.enqueue_task_sync("sum", args=[1])
    assert queue.get_task_status_sync(late.id).status == "PENDING"


def test_coroutines(web: Client, redis: Redis, tmp_path: Path) -> None:
    """Taskiq awaits handlers, and is awaited; Celery says that it does neither."""

    class Waits:
        @task_handler
        async def wait(self, n: int) -> int:
            await asyncio.sleep(0)
            return n * 2

    config = queue_of("redis_stream", redis, tmp_path, "q-awaits")
    serve.run(
        serve.deployment(task_consumer(task_processor_config=config)(Waits)).bind(),
        route_prefix=None,
    )
    queue = instantiate_adapter_from_config(config)

    async def ask() -> Any:
        task = await queue.enqueue_task_async("wait", [21])
        deadline = time.monotonic() + S
        while (found := await queue.get_task_status_async(task.id)).status == "PENDING":
            assert time.monotonic() < deadline
            await asyncio.sleep(0.01)
        await queue.cancel_task_async("nobody")
        assert (await queue.health_check_async())[0]
        assert await queue.get_metrics_async()
        return found.result

    assert asyncio.run(ask()) == 42
    celery = instantiate_adapter_from_config(queue_of("celery", redis, tmp_path, "q-refuses"))
    with pytest.raises(NotImplementedError, match="plain method"):
        celery.register_task_handle(Waits().wait)
    with pytest.raises(NotImplementedError):
        asyncio.run(celery.enqueue_task_async("wait"))


def test_tasks_that_wait_start_replicas(web: Client, redis: Redis, tmp_path: Path) -> None:
    """A deployment without replicas gets them for the tasks of its queue, and gives them back."""
    from ray.serve.async_inference_autoscaling_policy import AsyncInferenceAutoscalingPolicy
    from ray.serve.config import AutoscalingConfig, AutoscalingPolicy

    config = queue_of("celery", redis, tmp_path, "q-scales")
    policy = AutoscalingPolicy(
        policy_function=AsyncInferenceAutoscalingPolicy,
        policy_kwargs={
            "broker_url": f"redis://{redis.address}/0",
            "queue_name": "q-scales",
            "poll_interval_s": 0.1,
        },
    )
    scaling = AutoscalingConfig(
        min_replicas=0, max_replicas=2, upscale_delay_s=0, downscale_delay_s=0.5, policy=policy
    )

    @serve.deployment(autoscaling_config=scaling)
    @task_consumer(task_processor_config=config)
    class Adds:
        @task_handler
        def add(self, one: int) -> int:
            return one + 1

    serve.run(Adds.bind(), route_prefix=None)
    queue = instantiate_adapter_from_config(config)
    assert Ended(queue)(queue.enqueue_task_sync("add", args=[1])).result == 2

    def states() -> dict[str, int]:
        return serve.status().applications["default"].deployments["Adds"].replica_states

    wait_until(lambda: not states(), within=S, what="no replicas")


def test_wrong_configurations(redis: Redis, tmp_path: Path) -> None:
    from ray.serve.task_processor import CeleryTaskProcessorAdapter
    from ray.serve.taskiq_task_processor import TaskiqAdapterConfig, TaskiqTaskProcessorAdapter

    def made(adapter: Any, told: Any) -> Any:
        config = TaskProcessorConfig(queue_name="q", adapter=adapter, adapter_config=told)
        return instantiate_adapter_from_config(config)

    url = f"redis://{redis.address}"
    taken = CeleryAdapterConfig(
        broker_url=url, backend_url=url, app_custom_config={"worker_pool": "solo"}
    )
    with pytest.raises(TypeError, match="CeleryAdapterConfig"):
        made(CeleryTaskProcessorAdapter, {"broker_url": url})
    with pytest.raises(ValueError, match="worker_pool, which the adapter decides"):
        made(CeleryTaskProcessorAdapter, taken)
    with pytest.raises(TypeError, match="TaskiqAdapterConfig"):
        made(TaskiqTaskProcessorAdapter, {})
    with pytest.raises(ValueError, match=r"no broker_type 'pigeons'.*redis_stream"):
        made(TaskiqTaskProcessorAdapter, TaskiqAdapterConfig(broker_type="pigeons"))
    with pytest.raises(ValueError, match="needs url"):
        made(TaskiqTaskProcessorAdapter, TaskiqAdapterConfig(broker_type="redis_list"))
    with pytest.raises(ImportError, match="pip install taskiq-nats"):
        made(
            TaskiqTaskProcessorAdapter,
            TaskiqAdapterConfig(broker_type="nats", broker_kwargs={"servers": []}),
        )
    kept = made(
        TaskiqTaskProcessorAdapter,
        TaskiqAdapterConfig(broker_type="redis_list", broker_kwargs={"url": url}),
    )
    sent = kept.enqueue_task_sync("any")
    with pytest.raises(RuntimeError, match="give `result_backend_url`"):
        kept.get_task_status_sync(sent.id)
    with pytest.raises(RuntimeError, match="give `result_backend_url`"):
        kept.cancel_task_sync(sent.id)
    # A server that is not there.
    lost = made(
        TaskiqTaskProcessorAdapter,
        TaskiqAdapterConfig(
            broker_type="redis_stream", broker_kwargs={"url": "redis://127.0.0.1:1"}
        ),
    )
    assert "Connect" in json.dumps(lost.health_check_sync())
