"""Gradio in deployments, and deployments that take tasks from a queue."""

from __future__ import annotations

import importlib
import json
import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from ray import serve
from ray.serve.schema import TaskProcessorAdapter, TaskProcessorConfig, TaskResult

from tests.helpers.harness import IS_HELIOSTAT
from tests.helpers.serving import Client

CLUSTER = {"num_cpus": 8}
S = 60
pytestmark = [
    pytest.mark.contract("F12.08"),
    pytest.mark.skipif(not IS_HELIOSTAT, reason="Ray's need their packages"),
]

# As much of Gradio as there is to being served.
GRADIO = """
class Blocks:
    def __init__(self, title): self.title = title

class routes:
    pass
"""
ROUTES = """
class App:
    @staticmethod
    def create_app(blocks):
        async def app(scope, receive, send):
            if scope["type"] != "http":
                return
            body = (blocks.title + scope["path"]).encode()
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": body})
        return app
"""


def test_gradio_answers(web: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ModuleNotFoundError, match="pip install gradio"):
        importlib.import_module("ray.serve.gradio_integrations")
    (tmp_path / "gradio").mkdir()
    (tmp_path / "gradio" / "__init__.py").write_text(GRADIO)
    (tmp_path / "gradio" / "routes.py").write_text(ROUTES)
    monkeypatch.syspath_prepend(tmp_path)
    made = importlib.import_module("ray.serve.gradio_integrations")

    def build() -> Any:
        import gradio

        return gradio.Blocks("title of ")

    options = {"runtime_env": {"env_vars": {"PYTHONPATH": str(tmp_path)}}}
    serve.run(made.GradioServer.options(ray_actor_options=options).bind(build))
    assert web.get("/page").text == "title of /page"


class Folder(TaskProcessorAdapter):  # type: ignore[misc] # without types on Ray
    """A queue that is a folder: a file for each task, which becomes its result."""

    def __init__(self, config: TaskProcessorConfig) -> None:
        super().__init__()
        self.folder = Path(config.adapter_config) / config.queue_name
        self.handlers: dict[str, Any] = {}
        self.is_over = threading.Event()
        self.threads: list[threading.Thread] = []

    def initialize(self, consumer_concurrency: int = 5) -> None:
        self.folder.mkdir(exist_ok=True)
        self.concurrency = consumer_concurrency

    def register_task_handle(self, func: Any, name: str | None = None) -> None:
        self.handlers[name or func.__name__] = func

    def enqueue_task_sync(
        self, task_name: str, args: Any = None, kwargs: Any = None, **options: Any
    ) -> TaskResult:
        number = f"{time.monotonic_ns()}"
        file = self.folder / f"{number}.new"
        file.with_suffix(".part").write_text(json.dumps([task_name, args or [], kwargs or {}]))
        file.with_suffix(".part").rename(file)
        return TaskResult(id=number, status="PENDING", result=None)

    def get_task_status_sync(self, task_id: str) -> TaskResult:
        done = self.folder / f"{task_id}.done"
        if not done.exists():
            return TaskResult(id=task_id, status="PENDING", result=None)
        return TaskResult(id=task_id, status="SUCCESS", result=json.loads(done.read_text()))

    def start_consumer(self, **kwargs: Any) -> None:
        self.threads = [threading.Thread(target=self._consume) for _ in range(self.concurrency)]
        for thread in self.threads:
            thread.start()

    def _consume(self) -> None:
        while not self.is_over.is_set():
            for file in sorted(self.folder.glob("*.new")):
                taken = file.with_suffix(".taken")
                try:
                    file.rename(taken)
                except FileNotFoundError:
                    continue
                name, args, kwargs = json.loads(taken.read_text())
                part = file.with_suffix(".part")
                part.write_text(json.dumps(self.handlers[name](*args, **kwargs)))
                part.rename(file.with_suffix(".done"))
            self.is_over.wait(0.05)

    def stop_consumer(self, timeout: float = 10.0) -> None:
        self.is_over.set()
        for thread in self.threads:
            thread.join()
        (self.folder / f"stopped-{os.getpid()}").touch()

    def cancel_task_sync(self, task_id: str) -> None:
        (self.folder / f"{task_id}.new").unlink()

    def get_metrics_sync(self) -> dict[str, Any]:
        return {}

    def health_check_sync(self) -> list[dict[str, Any]]:
        return []


def test_a_deployment_does_the_tasks_of_a_queue(web: Client, tmp_path: Path) -> None:
    from ray.serve.task_consumer import (
        instantiate_adapter_from_config,
        task_consumer,
        task_handler,
    )

    config = TaskProcessorConfig(queue_name="q", adapter=Folder, adapter_config=str(tmp_path))

    @serve.deployment(max_ongoing_requests=2)
    @task_consumer(task_processor_config=config)
    class Adds:
        """Adds."""

        def __init__(self, plus: int) -> None:
            self.plus = plus

        @task_handler(name="sum")
        def add(self, one: int, other: int = 0) -> list[int]:
            return [one + other + self.plus, os.getpid()]

        @task_handler
        def name(self) -> str:
            return type(self).__name__

        def pid(self) -> int:
            return os.getpid()

    handle = serve.run(Adds.bind(100), route_prefix=None)
    queue = instantiate_adapter_from_config(config)
    tasks = [queue.enqueue_task_sync("sum", [number], {"other": 1}) for number in range(5)]
    tasks.append(queue.enqueue_task_sync("name"))

    def result(task: TaskResult) -> Any:
        deadline = time.monotonic() + S
        while (found := queue.get_task_status_sync(task.id)).status != "SUCCESS":
            assert time.monotonic() < deadline, found
            time.sleep(0.02)
        return found.result

    pid = handle.pid.remote().result(timeout_s=S)
    assert [result(task) for task in tasks] == [*([101 + n, pid] for n in range(5)), "Adds"]
    # It stops before its replica ends.
    serve.delete("default")
    assert (tmp_path / "q" / f"stopped-{pid}").exists()


@pytest.mark.parametrize(
    ("adapter", "error", "words"),
    [
        ("ray.serve.no_such_module.Adapter", RuntimeError, "no_such_module"),
        (dict, TypeError, "subclass of TaskProcessorAdapter"),
    ],
)
def test_what_is_no_adapter_is_refused(adapter: Any, error: Any, words: str) -> None:
    from ray.serve.task_consumer import instantiate_adapter_from_config, task_handler

    config = TaskProcessorConfig(queue_name="q", adapter=adapter, adapter_config={})
    with pytest.raises(error, match=words):
        instantiate_adapter_from_config(config)
    with pytest.raises(ValueError, match="non-empty"):
        task_handler(name=" ")
