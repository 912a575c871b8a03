"""Deployments that take tasks from a queue: ``@task_consumer`` and ``@task_handler``.

What speaks with the queue is an adapter, a subclass of ``schema.TaskProcessorAdapter``. A replica consumes as
many tasks at a time as its ``max_ongoing_requests``.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from heliostat.core.platform.extras import explained
from heliostat.serve.options import attribute

try:
    from heliostat.serve.tasks import TaskProcessorAdapter, TaskProcessorConfig
except ModuleNotFoundError as error:
    raise explained(error, "ray.serve.task_consumer", "serve") from error

__all__ = ["instantiate_adapter_from_config", "task_consumer", "task_handler"]

_CONCURRENCY_USUAL = 5


def _adapter(config: TaskProcessorConfig, concurrency: int) -> TaskProcessorAdapter:
    kind = config.adapter
    if isinstance(kind, str):
        try:
            kind = attribute(kind)
        except (ImportError, AttributeError) as error:
            raise RuntimeError(
                f"The adapter {config.adapter!r} cannot be imported: {error}."
            ) from error
    if not callable(kind):
        raise TypeError(f"An adapter is a class or its import path, not {kind!r}.")
    made = kind(config)
    if not isinstance(made, TaskProcessorAdapter):
        raise TypeError(f"{kind.__name__} must be a subclass of TaskProcessorAdapter.")
    made.initialize(concurrency)
    return made


def instantiate_adapter_from_config(
    task_processor_config: TaskProcessorConfig,
) -> TaskProcessorAdapter:
    """Return the adapter of a configuration, made ready: for those who put tasks into the queue.

    Args:
        task_processor_config: The configuration.

    Raises:
        TypeError: It does not name an adapter.
        RuntimeError: Its import path leads nowhere.

    Returns:
        The adapter.

    Examples:
        >>> from ray.serve.task_consumer import instantiate_adapter_from_config
        >>> def shrink_all(queue, paths):  # the TaskProcessorConfig of the deployment
        ...     adapter = instantiate_adapter_from_config(queue)
        ...     return [adapter.enqueue_task_sync("shrink", args=[path]).id for path in paths]
    """
    return _adapter(task_processor_config, _CONCURRENCY_USUAL)


def task_consumer(*, task_processor_config: TaskProcessorConfig) -> Callable[[type], type]:
    """Have the replicas of a class consume the tasks of a queue with its methods that are ``@task_handler``.

    Stands below ``@serve.deployment``. They consume from their constructors on, and stop before they end.

    Args:
        task_processor_config: The queue, and how tasks are tried again.

    Returns:
        A decorator of the class.

    Examples:
        >>> from ray import serve
        >>> from ray.serve.schema import CeleryAdapterConfig, TaskProcessorConfig
        >>> from ray.serve.task_consumer import task_consumer, task_handler
        >>> queue = TaskProcessorConfig(
        ...     queue_name="pictures",
        ...     adapter_config=CeleryAdapterConfig(
        ...         broker_url="redis://broker:6379/0", backend_url="redis://broker:6379/1"
        ...     ),
        ... )
        >>> @serve.deployment(max_ongoing_requests=4)
        ... @task_consumer(task_processor_config=queue)
        ... class Pictures:
        ...     @task_handler(name="shrink")
        ...     def shrink(self, path):
        ...         return f"{path}.small"
        >>> app = Pictures.bind()  # serve.run(app) consumes four tasks at a time
    """

    def decorate(cls: type) -> type:
        handlers = {
            getattr(method, "_task_name", name): name
            for name, method in inspect.getmembers(cls, inspect.isfunction)
            if getattr(method, "_is_task_handler", False)
        }

        class Consumer(cls):  # type: ignore[misc] # the user's
            _adapter: TaskProcessorAdapter | None = None

            def _serve_start_tasks(self, concurrency: int) -> None:
                self._adapter = _adapter(task_processor_config, concurrency)
                for task, name in handlers.items():
                    self._adapter.register_task_handle(getattr(self, name), task)
                self._adapter.start_consumer()

            def __del__(self) -> None:
                adapter, self._adapter = self._adapter, None
                if adapter is not None:
                    adapter.stop_consumer()
                ends = getattr(cls, "__del__", None)
                if ends is not None:
                    ends(self)

        functools.update_wrapper(Consumer, cls, updated=())
        return Consumer

    return decorate


def task_handler(_func: Callable[..., Any] | None = None, *, name: str | None = None) -> Any:
    """Mark a method as what does the tasks of a name.

    Args:
        name: The tasks' name. Default: the method's.

    Returns:
        The method, or a decorator of it.

    Raises:
        ValueError: The name is empty.

    Examples:
        >>> from ray.serve.task_consumer import task_handler
        >>> class Pictures:
        ...     @task_handler  # the tasks named "shrink"
        ...     def shrink(self, path):
        ...         return f"{path}.small"
        ...     @task_handler(name="pictures.turn")
        ...     def turn(self, path, degrees=90):
        ...         return f"{path}.{degrees}"
        >>> Pictures().turn("a.png", degrees=180)  # it is called as any method
        'a.png.180'
    """
    if name is not None and not name.strip():
        raise ValueError(f"Task name must be a non-empty string, got {name}")

    def decorate(method: Any) -> Any:
        method._is_task_handler = True
        method._task_name = name or method.__name__
        return method

    return decorate if _func is None else decorate(_func)
