"""Queues of tasks: their configuration, results, and what an adapter to one has to do."""

from __future__ import annotations

import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from pydantic import BaseModel

from heliostat.serve.context import _get_internal_replica_context

__all__ = ["CeleryAdapterConfig", "TaskProcessorAdapter", "TaskProcessorConfig", "TaskResult"]


class CeleryAdapterConfig(BaseModel):  # type: ignore[misc] # without types
    """The addresses of Celery's broker and of its results.

    ``app_custom_config``: further settings of Celery's application; ``task_custom_config``: options of all
    its tasks; ``broker_transport_options``: as Celery takes them, such as the folders of ``filesystem://``.
    """

    app_custom_config: dict[str, Any] | None = None
    task_custom_config: dict[str, Any] | None = None
    broker_url: str
    backend_url: str
    broker_transport_options: dict[str, Any] | None = None


class TaskProcessorConfig(BaseModel):  # type: ignore[misc] # without types
    """A queue, and the adapter that speaks with it, which gets the whole of this.

    ``adapter``: a subclass of ``TaskProcessorAdapter`` or its import path; ``max_retries``: how often a task
    that fails is done again, as far as the adapter does so.
    """

    queue_name: str
    adapter: str | Callable[..., Any] = "ray.serve.task_processor.CeleryTaskProcessorAdapter"
    adapter_config: Any
    max_retries: int | None = 3
    failed_task_queue_name: str | None = None
    unprocessable_task_queue_name: str | None = None


class TaskResult(BaseModel):  # type: ignore[misc] # without types
    """The state of a task; ``created_at`` is Unix time."""

    id: str
    status: str
    created_at: float | None = None
    result: Any


class TaskProcessorAdapter(ABC):
    """The adapter of a queue. Each method waits; the ``…_async`` ones are there for those that can."""

    def __init__(self, *_args: Any, **_kwargs: Any) -> None:  # noqa: B027 - Subclasses may call it.
        """``TaskProcessorConfig`` is what it is made with."""

    @abstractmethod
    def initialize(self, consumer_concurrency: int = 5) -> None:
        """Make it ready, to do so many tasks at a time."""

    @abstractmethod
    def register_task_handle(self, func: Callable[..., Any], name: str | None = None) -> None:
        """Have the tasks of a name done by that."""

    @abstractmethod
    def enqueue_task_sync(
        self, task_name: str, args: Any = None, kwargs: Any = None, **options: Any
    ) -> TaskResult:
        """Put a task into the queue."""

    @abstractmethod
    def get_task_status_sync(self, task_id: str) -> TaskResult:
        """Return the state of a task."""

    @abstractmethod
    def start_consumer(self, **kwargs: Any) -> None:
        """Begin to do tasks; does not wait for them."""

    @abstractmethod
    def stop_consumer(self, timeout: float = 10.0) -> None:
        """End with those that are being done, within ``timeout`` seconds."""

    @abstractmethod
    def cancel_task_sync(self, task_id: str) -> Any:
        """Cancel a task."""

    @abstractmethod
    def get_metrics_sync(self) -> dict[str, Any]:
        """Return the measurements of the queue."""

    @abstractmethod
    def health_check_sync(self) -> list[dict[str, Any]]:
        """Return the health of the consumers."""

    async def enqueue_task_async(
        self, task_name: str, args: Any = None, kwargs: Any = None, **options: Any
    ) -> TaskResult:
        """As ``enqueue_task_sync``.

        Args:
            task_name: The name of what does it.
            args: Positional arguments.
            kwargs: Keyword arguments.
            **options: As of ``enqueue_task_sync``.

        Returns:
            The task.

        Raises:
            NotImplementedError: This adapter cannot.
        """
        raise NotImplementedError("This adapter has no enqueue_task_async.")

    async def get_task_status_async(self, task_id: str) -> TaskResult:
        """As ``get_task_status_sync``.

        Args:
            task_id: The task.

        Returns:
            How it stands.

        Raises:
            NotImplementedError: This adapter cannot.
        """
        raise NotImplementedError("This adapter has no get_task_status_async.")

    async def cancel_task_async(self, task_id: str) -> Any:
        """As ``cancel_task_sync``.

        Args:
            task_id: The task.

        Returns:
            What the adapter says of it.

        Raises:
            NotImplementedError: This adapter cannot.
        """
        raise NotImplementedError("This adapter has no cancel_task_async.")

    async def get_metrics_async(self) -> dict[str, Any]:
        """As ``get_metrics_sync``.

        Raises:
            NotImplementedError: This adapter cannot.
        """
        raise NotImplementedError("This adapter has no get_metrics_async.")

    async def health_check_async(self) -> list[dict[str, Any]]:
        """As ``health_check_sync``.

        Raises:
            NotImplementedError: This adapter cannot.
        """
        raise NotImplementedError("This adapter has no health_check_async.")


def consumer_name(library: str, queue: str) -> str:
    """Return the name of this process as a consumer of a queue: its replica's, outside of one by chance."""
    replica = _get_internal_replica_context()
    whose = replica.replica_tag if replica is not None else uuid.uuid4().hex[:8]
    return f"{library}@{queue}_{whose}"
