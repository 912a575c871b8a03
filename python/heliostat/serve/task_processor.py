"""Queues of tasks by Celery, for ``@task_consumer``: whatever broker Celery knows."""

from __future__ import annotations

import inspect
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from heliostat.core.platform.extras import explained, required

try:
    from heliostat.serve.tasks import (
        CeleryAdapterConfig,
        TaskProcessorAdapter,
        TaskProcessorConfig,
        TaskResult,
        consumer_name,
    )
except ModuleNotFoundError as error:
    raise explained(error, "ray.serve.task_processor", "serve") from error

__all__ = ["CeleryTaskProcessorAdapter"]

# The adapter's settings of the application: a task is taken from the queue once it was done, and done again
# where its replica has died.
_OWN = {
    "task_acks_late": True,
    "task_ignore_result": False,
    "task_reject_on_worker_lost": True,
    "worker_pool": "threads",
}
_BACKOFF_MAX_S = 60


class CeleryTaskProcessorAdapter(TaskProcessorAdapter):
    """Celery's queue, and in a replica a worker of Celery on threads.

    ``adapter_config`` is a ``CeleryAdapterConfig``. A handler is not a coroutine. A task whose handler raises
    is done again after 1, 2, 4 … seconds, at most 60; after ``max_retries`` times it goes to
    ``failed_task_queue_name``, with id, exception, args, kwargs and traceback, each but the first as text. A
    task that has no handler, or that cannot be read, goes to ``unprocessable_task_queue_name``.

    Args:
        config: The queue, with a ``CeleryAdapterConfig`` as ``adapter_config``.
        *args: Has no effect.
        **kwargs: Has no effect.

    Raises:
        TypeError: ``adapter_config`` is another.
        ValueError: ``app_custom_config`` has what the adapter decides itself.
        ImportError: Celery is not installed.

    Examples:
        >>> from ray.serve.schema import CeleryAdapterConfig, TaskProcessorConfig
        >>> from ray.serve.task_processor import CeleryTaskProcessorAdapter
        >>> queue = TaskProcessorConfig(
        ...     queue_name="pictures",
        ...     adapter=CeleryTaskProcessorAdapter,  # the default
        ...     adapter_config=CeleryAdapterConfig(
        ...         broker_url="redis://broker:6379/0", backend_url="redis://broker:6379/1"
        ...     ),
        ...     max_retries=5,
        ...     failed_task_queue_name="pictures-failed",
        ... )
    """

    def __init__(self, config: TaskProcessorConfig, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        told = config.adapter_config
        if not isinstance(told, CeleryAdapterConfig):
            raise TypeError(
                f"`adapter_config` has to be a CeleryAdapterConfig, not {type(told).__name__}."
            )
        taken = sorted({*_OWN, "worker_concurrency"} & set(told.app_custom_config or {}))
        if taken:
            raise ValueError(
                f"`app_custom_config` has {', '.join(taken)}, which the adapter decides: leave it out."
            )
        self._config = config
        self._told = told
        self._worker: Any = None
        self._thread: threading.Thread | None = None

    def initialize(self, consumer_concurrency: int = 5) -> None:
        """Make Celery's application.

        Args:
            consumer_concurrency: How many tasks are done at once. Default 5.
        """
        celery = required("celery", "CeleryTaskProcessorAdapter")
        config, told = self._config, self._told
        self._app = celery.Celery(
            config.queue_name,
            backend=told.backend_url,
            broker=told.broker_url,
            set_as_current=False,
        )
        usual = {
            **_OWN,
            "worker_concurrency": consumer_concurrency,
            # Waiting tasks stay in the queue: others take them, and they can be cancelled and counted.
            "worker_prefetch_multiplier": 1,
        }
        self._app.conf.update({**usual, **(told.app_custom_config or {})})
        queues = (
            config.queue_name,
            config.failed_task_queue_name,
            config.unprocessable_task_queue_name,
        )
        self._app.conf.task_queues = {
            name: {"exchange": name, "exchange_type": "direct", "routing_key": name}
            for name in queues
            if name
        }
        self._app.conf.task_routes = {"*": {"queue": config.queue_name}}
        if told.broker_transport_options is not None:
            self._app.conf.broker_transport_options = told.broker_transport_options

    def register_task_handle(self, func: Callable[..., Any], name: str | None = None) -> None:
        """Have the tasks of a name done by a function.

        Args:
            func: The function.
            name: The name. Default: the function's.

        Raises:
            NotImplementedError: It is a coroutine function.
        """
        if inspect.iscoroutinefunction(func):
            raise NotImplementedError(
                f"Celery calls no coroutines: make {name or func.__name__} a plain method."
            )

        def on_failure(
            task: Any, exc: Exception, task_id: str, args: Any, kwargs: Any, einfo: Any
        ) -> None:
            said = [task_id, str(exc), str(args), str(kwargs), str(einfo)]
            self._pass_on(self._config.failed_task_queue_name, task.name, said)

        celery = required("celery", "CeleryTaskProcessorAdapter")
        options = {
            "autoretry_for": (Exception,),
            "retry_kwargs": {"max_retries": self._config.max_retries},
            "retry_backoff": True,
            "retry_backoff_max": _BACKOFF_MAX_S,
            "retry_jitter": False,
            "shared": False,
            "typing": False,  # it takes `self` of a method for an argument
            "base": type("Task", (celery.Task,), {"on_failure": on_failure}),
            **(self._told.task_custom_config or {}),
        }
        self._app.task(name=name or func.__name__, **options)(func)

    def enqueue_task_sync(
        self, task_name: str, args: Any = None, kwargs: Any = None, **options: Any
    ) -> TaskResult:
        """Put a task into the queue.

        Args:
            task_name: The name of what does it.
            args: Positional arguments.
            kwargs: Keyword arguments.
            **options: Those of Celery's ``send_task``.

        Returns:
            The task.
        """
        sent = self._app.send_task(
            task_name, args=args, kwargs=kwargs, queue=self._config.queue_name, **options
        )
        return TaskResult(
            id=sent.id, status=sent.status, created_at=time.time(), result=sent.result
        )

    def get_task_status_sync(self, task_id: str) -> TaskResult:
        """Return the state of a task in Celery's words; ``PENDING`` also for one that nobody knows.

        Args:
            task_id: The task.

        Returns:
            How it stands.
        """
        found = self._app.AsyncResult(task_id)
        return TaskResult(id=found.id, status=found.status, result=found.result)

    def start_consumer(self, **kwargs: Any) -> None:
        """Start a worker on a thread, unless there is one. Returns once it consumes.

        Args:
            **kwargs: Those of Celery's ``WorkController``.

        Raises:
            RuntimeError: The worker has ended before that.
        """
        if self._thread is not None and self._thread.is_alive():
            return
        from celery import signals
        from celery.concurrency.thread import TaskPool
        from celery.worker import WorkController

        signals.task_unknown.connect(self._on_unknown, weak=False, dispatch_uid=id(self))
        signals.task_rejected.connect(self._on_unknown, weak=False, dispatch_uid=id(self))
        is_ready = threading.Event()
        app = self._app
        app.finalize()
        errors: list[BaseException] = []

        class Threads(TaskPool):  # type: ignore[misc] # without types
            """Threads that belong to this application: a process may have others."""

            def __init__(self, *args: Any, **kwargs: Any) -> None:
                super().__init__(*args, **kwargs)
                self.executor = ThreadPoolExecutor(self.limit, "celery", app.set_current)

        self._worker = WorkController(
            app=app,
            hostname=consumer_name("celery", self._config.queue_name),
            queues=[self._config.queue_name],
            pool=Threads,
            concurrency=app.conf.worker_concurrency,
            ready_callback=lambda _: is_ready.set(),
            **kwargs,
        )

        def run() -> None:
            try:
                app.set_current()
                self._worker.start()
            except BaseException as error:
                errors.append(error)
            finally:
                is_ready.set()

        self._thread = threading.Thread(target=run, name="celery-worker", daemon=True)
        self._thread.start()
        while not is_ready.wait(0.1) and self._thread.is_alive():
            pass
        if errors or self._worker.exitcode:
            why = errors[0] if errors else None
            raise RuntimeError(
                f"Celery's worker for {self._config.queue_name!r} has not started: "
                f"{why or 'its log says why'}"
            ) from why

    def stop_consumer(self, timeout: float = 10.0) -> None:
        """Take no more tasks, and end with those that are being done.

        Args:
            timeout: Seconds that these have. Default 10.
        """
        thread, self._thread = self._thread, None
        if thread is None or not thread.is_alive():
            return
        from celery import signals

        ends = threading.Thread(target=self._worker.stop, name="celery-stop", daemon=True)
        ends.start()
        until = time.monotonic() + timeout
        for one in (ends, thread):
            one.join(max(0.0, until - time.monotonic()))
        signals.task_unknown.disconnect(dispatch_uid=id(self))
        signals.task_rejected.disconnect(dispatch_uid=id(self))

    def cancel_task_sync(self, task_id: str) -> None:
        """Tell all workers that they are not to begin it, as far as the broker has broadcasts.

        Args:
            task_id: The task.
        """
        self._app.control.revoke(task_id)

    def get_metrics_sync(self) -> dict[str, Any]:
        """Return the statistics of each worker, by its name; ``{}`` without any."""
        return self._app.control.inspect().stats() or {}

    def health_check_sync(self) -> list[dict[str, Any]]:
        """``[{worker: {"ok": "pong"}}, …]`` of the workers that answer."""
        return list(self._app.control.ping())

    def _on_unknown(
        self,
        sender: Any = None,
        name: str = "",
        id: str = "",
        message: Any = None,
        exc: Any = None,
        signal: Any = None,
        **more: Any,
    ) -> None:
        if getattr(sender, "app", None) is self._app:
            try:
                body = str(message.payload)
            except Exception:  # it cannot be read
                body = str(message)
            said = [name, id, body, str(exc), str(more)]
            self._pass_on(self._config.unprocessable_task_queue_name, name or "unknown", said)

    def _pass_on(self, queue: str | None, name: str, said: list[str]) -> None:
        if queue:
            self._app.send_task(name, args=said, queue=queue)
