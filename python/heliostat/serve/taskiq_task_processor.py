"""Queues of tasks by Taskiq, for ``@task_consumer``: handlers may be coroutines."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import functools
import inspect
import threading
import time
import traceback
import weakref
from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple, TypeVar, get_type_hints

from heliostat.core.platform.extras import explained, required
from heliostat.serve.options import attribute

try:
    from pydantic import BaseModel

    from heliostat.serve.tasks import (
        TaskProcessorAdapter,
        TaskProcessorConfig,
        TaskResult,
        consumer_name,
    )
except ModuleNotFoundError as error:
    raise explained(error, "ray.serve.taskiq_task_processor", "serve") from error

__all__ = ["TaskiqAdapterConfig", "TaskiqTaskProcessorAdapter"]

T = TypeVar("T")
_WHO = "TaskiqTaskProcessorAdapter"
_BACKOFF_MAX_S = 60
# How long a task that was cancelled is known to be so, in seconds.
_CANCELLED_FOR_S = 7 * 24 * 3600
_CANCELLED = "serve-cancelled:"


class _Broker(NamedTuple):
    """The path of a broker's class, its argument for the queue, and the others that it needs."""

    path: str
    package: str
    queue: str
    needs: tuple[str, ...] = ()


def _redis(name: str, *needs: str) -> _Broker:
    return _Broker(f"taskiq_redis.{name}", "taskiq-redis", "queue_name", needs)


_SENTINEL = ("sentinels", "master_name")
_BROKERS = {
    "redis_stream": _redis("RedisStreamBroker", "url"),
    "redis_list": _redis("ListQueueBroker", "url"),
    "redis_pubsub": _redis("PubSubBroker", "url"),
    "redis_stream_cluster": _redis("RedisStreamClusterBroker", "url"),
    "redis_list_cluster": _redis("ListQueueClusterBroker", "url"),
    "redis_stream_sentinel": _redis("RedisStreamSentinelBroker", *_SENTINEL),
    "redis_list_sentinel": _redis("ListQueueSentinelBroker", *_SENTINEL),
    "redis_pubsub_sentinel": _redis("PubSubSentinelBroker", *_SENTINEL),
    "rabbitmq": _Broker("taskiq_aio_pika.AioPikaBroker", "taskiq-aio-pika", "queue_name"),
    "nats": _Broker("taskiq_nats.PullBasedJetStreamBroker", "taskiq-nats", "subject", ("servers",)),
    "kafka": _Broker(
        "taskiq_aio_kafka.AioKafkaBroker", "taskiq-aio-kafka", "kafka_topic", ("bootstrap_servers",)
    ),
}


class TaskiqAdapterConfig(BaseModel):  # type: ignore[misc] # without types
    """A broker of Taskiq's.

    Attributes:
        broker_type: ``redis_stream``, ``redis_list``, ``redis_pubsub``, the first two with
            ``_cluster``, all three with ``_sentinel``, ``rabbitmq``, ``nats`` or ``kafka``.
        broker_kwargs: Arguments of the broker's class, such as ``url``.
        result_backend_url: A Redis that keeps results. Default: there are none.

    Examples:
        >>> from ray.serve.taskiq_task_processor import TaskiqAdapterConfig
        >>> broker = TaskiqAdapterConfig(
        ...     broker_type="redis_stream",
        ...     broker_kwargs={"url": "redis://broker:6379/0"},
        ...     result_backend_url="redis://broker:6379/1",
        ... )
        >>> broker.broker_type
        'redis_stream'
    """

    broker_type: str
    broker_kwargs: dict[str, Any] | None = None
    result_backend_url: str | None = None


def _made(told: TaskiqAdapterConfig, queue: str) -> Any:
    """A broker whose tasks go to that queue."""
    kind = _BROKERS.get(told.broker_type)
    if kind is None:
        raise ValueError(
            f"There is no broker_type {told.broker_type!r}: it is one of {', '.join(_BROKERS)}."
        )
    kwargs = dict(told.broker_kwargs or {})
    lacking = [one for one in kind.needs if one not in kwargs]
    if lacking:
        raise ValueError(
            f"The broker {told.broker_type!r} needs {', '.join(lacking)}: name it in `broker_kwargs`."
        )
    module = kind.path.partition(".")[0]
    try:
        cls = attribute(kind.path)
    except ImportError as error:
        raise ImportError(
            f"The broker {told.broker_type!r} needs a package that is not here: "
            f"`pip install {kind.package}` ({error}).",
            name=module,
        ) from error
    if kind.path.startswith("taskiq_redis.RedisStream"):
        kwargs.setdefault("consumer_id", "0")  # what was sent before the first consumer counts
    return cls(**{**kwargs, kind.queue: queue})


class TaskiqTaskProcessorAdapter(TaskProcessorAdapter):
    """Taskiq's queue, and in a replica a consumer of it on an event loop of its own.

    ``adapter_config`` is a ``TaskiqAdapterConfig``. A task whose handler raises is done again after 1, 2, 4 …
    seconds, at most 60, for which it keeps its place among those that run; after ``max_retries`` times it
    goes to ``failed_task_queue_name``, with id, exception, args, kwargs and traceback, each but the first as
    text. A task that has no handler, or that cannot be read, goes to ``unprocessable_task_queue_name``.
    Status and cancelling need ``result_backend_url``. Every method has its ``…_async`` one.

    Args:
        config: The queue, with a ``TaskiqAdapterConfig`` as ``adapter_config``.
        *args: Has no effect.
        **kwargs: Has no effect.

    Raises:
        TypeError: ``adapter_config`` is another.
        ValueError: There is no such broker, or it needs more arguments.
        ImportError: Taskiq or the broker's package is not installed.

    Examples:
        >>> from ray.serve.schema import TaskProcessorConfig
        >>> from ray.serve.taskiq_task_processor import TaskiqAdapterConfig, TaskiqTaskProcessorAdapter
        >>> queue = TaskProcessorConfig(
        ...     queue_name="pictures",
        ...     adapter=TaskiqTaskProcessorAdapter,
        ...     adapter_config=TaskiqAdapterConfig(
        ...         broker_type="redis_list", broker_kwargs={"url": "redis://broker:6379/0"}
        ...     ),
        ... )

        ``@task_consumer(task_processor_config=queue)`` has a deployment consume it.
    """

    def __init__(self, config: TaskProcessorConfig, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if not isinstance(config.adapter_config, TaskiqAdapterConfig):
            raise TypeError(
                "`adapter_config` has to be a TaskiqAdapterConfig, not "
                f"{type(config.adapter_config).__name__}."
            )
        self._config = config
        self._told = config.adapter_config
        self._broker: Any = None
        self._results: Any = None
        self._others: dict[str, Any] = {}  # brokers of further queues
        self._consumer: concurrent.futures.Future[None] | None = None
        self._executor: concurrent.futures.ThreadPoolExecutor | None = None
        self._counts = {"running": 0, "succeeded": 0, "failed": 0, "retried": 0, "unprocessable": 0}

    def initialize(self, consumer_concurrency: int = 5) -> None:
        """Make the broker and what keeps results.

        Args:
            consumer_concurrency: How many tasks are done at once. Default 5.
        """
        required("taskiq", _WHO)
        self._concurrency = consumer_concurrency
        self._broker = _made(self._told, self._config.queue_name)
        if self._told.result_backend_url:
            redis = required("taskiq_redis", _WHO)
            self._results = redis.RedisAsyncResultBackend(redis_url=self._told.result_backend_url)
            self._broker = self._broker.with_result_backend(self._results)
        self._broker.add_middlewares(_care_of(self))
        self._name = consumer_name("taskiq", self._config.queue_name)
        self._started = False

    def register_task_handle(self, func: Callable[..., Any], name: str | None = None) -> None:
        """Have the tasks of a name done by a function.

        Args:
            func: The function; it may be a coroutine function.
            name: The name. Default: the function's.
        """
        self._broker.register_task(_as_function(func), task_name=name or func.__name__)

    # --- who sends

    async def _enqueue(
        self, task_name: str, args: Any, kwargs: Any, options: dict[str, Any]
    ) -> TaskResult:
        from taskiq.kicker import AsyncKicker

        await self._start()
        kicker = AsyncKicker(task_name, self._broker, options)
        sent = await kicker.kiq(*(args or ()), **(kwargs or {}))
        return TaskResult(id=sent.task_id, status="PENDING", created_at=time.time(), result=None)

    async def _status(self, task_id: str) -> TaskResult:
        self._need_results("To ask for a task's status")
        await self._start()
        if await self._results.is_result_ready(task_id):
            found = await self._results.get_result(task_id)
            if found.is_err:
                return TaskResult(id=task_id, status="FAILURE", result=found.error)
            return TaskResult(id=task_id, status="SUCCESS", result=found.return_value)
        status = "REVOKED" if await self._is_cancelled(task_id) else "PENDING"
        return TaskResult(id=task_id, status=status, result=None)

    async def _cancel(self, task_id: str) -> None:
        self._need_results("To cancel a task")
        async with self._redis() as redis:
            await redis.set(f"{_CANCELLED}{task_id}", "1", ex=_CANCELLED_FOR_S)

    async def _is_cancelled(self, task_id: str) -> bool:
        if self._results is None:
            return False
        async with self._redis() as redis:
            return bool(await redis.exists(f"{_CANCELLED}{task_id}"))

    async def _metrics(self) -> dict[str, Any]:
        return {self._name: dict(self._counts)}

    async def _health(self) -> list[dict[str, Any]]:
        try:
            await self._start()
            if self._consumer is not None and self._consumer.done():
                self._consumer.result()
                raise RuntimeError("the consumer has ended")
            if self._results is not None:
                async with self._redis() as redis:
                    await redis.ping()
        except Exception as error:
            return [{self._name: {"error": f"{type(error).__name__}: {error}"}}]
        return [{self._name: {"ok": "pong"}}]

    def enqueue_task_sync(
        self, task_name: str, args: Any = None, kwargs: Any = None, **options: Any
    ) -> TaskResult:
        """Put a task into the queue.

        Args:
            task_name: The name of what does it.
            args: Positional arguments.
            kwargs: Keyword arguments.
            **options: Labels of Taskiq's.

        Returns:
            The task.
        """
        return self._wait(self._enqueue(task_name, args, kwargs, options))

    async def enqueue_task_async(
        self, task_name: str, args: Any = None, kwargs: Any = None, **options: Any
    ) -> TaskResult:
        """As ``enqueue_task_sync``.

        Args:
            task_name: The name of what does it.
            args: Positional arguments.
            kwargs: Keyword arguments.
            **options: Labels of Taskiq's.

        Returns:
            The task.
        """
        return await self._wait_async(self._enqueue(task_name, args, kwargs, options))

    def get_task_status_sync(self, task_id: str) -> TaskResult:
        """Say how a task stands.

        Args:
            task_id: The task.

        Returns:
            ``PENDING``, also for one that nobody knows, ``SUCCESS``, ``FAILURE`` with the exception as
            result, or ``REVOKED``.

        Raises:
            RuntimeError: There is no ``result_backend_url``.
        """
        return self._wait(self._status(task_id))

    async def get_task_status_async(self, task_id: str) -> TaskResult:
        """As ``get_task_status_sync``.

        Args:
            task_id: The task.

        Returns:
            As of ``get_task_status_sync``.
        """
        return await self._wait_async(self._status(task_id))

    def cancel_task_sync(self, task_id: str) -> None:
        """Cancel a task: it is not begun, nor done again.

        Args:
            task_id: The task.

        Raises:
            RuntimeError: There is no ``result_backend_url``.
        """
        self._wait(self._cancel(task_id))

    async def cancel_task_async(self, task_id: str) -> None:
        """As ``cancel_task_sync``.

        Args:
            task_id: The task.
        """
        await self._wait_async(self._cancel(task_id))

    def get_metrics_sync(self) -> dict[str, Any]:
        """By the name of this consumer: how many tasks it does now, and of each outcome since it began."""
        return self._wait(self._metrics())

    async def get_metrics_async(self) -> dict[str, Any]:
        """As ``get_metrics_sync``."""
        return await self._wait_async(self._metrics())

    def health_check_sync(self) -> list[dict[str, Any]]:
        """``[{name: {"ok": "pong"}}]`` of this consumer, or with ``error`` in the place of ``ok``."""
        return self._wait(self._health())

    async def health_check_async(self) -> list[dict[str, Any]]:
        """As ``health_check_sync``."""
        return await self._wait_async(self._health())

    # --- who consumes

    def start_consumer(self, **kwargs: Any) -> None:
        """Consume on the adapter's event loop, unless it does. Returns once the broker is there.

        Args:
            **kwargs: Those of Taskiq's ``Receiver``.
        """
        if self._consumer is not None and not self._consumer.done():
            return
        self._broker.is_worker_process = True
        self._wait(self._start())
        self._executor = concurrent.futures.ThreadPoolExecutor(
            self._concurrency, thread_name_prefix="taskiq"
        )
        self._ends = asyncio.Event()
        receiver = _receiver_of(self, self._executor, kwargs)
        self._consumer = _submit(receiver.listen(self._ends))

    def stop_consumer(self, timeout: float = 10.0) -> None:
        """Take no more tasks, and end with those that are being done.

        Args:
            timeout: Seconds that these have. Default 10.
        """
        consumer, self._consumer = self._consumer, None
        if consumer is None:
            return
        assert self._executor is not None
        _loop().call_soon_threadsafe(self._ends.set)
        with contextlib.suppress(
            concurrent.futures.TimeoutError, concurrent.futures.CancelledError
        ):
            consumer.result(timeout)
        consumer.cancel()
        self._executor.shutdown(wait=False)
        others, self._others = list(self._others.values()), {}
        self._started = False
        self._wait(_close([self._broker, *others]))

    async def failed(self, message: Any, result: Any, error: BaseException) -> None:
        """Called when the handler has raised: does it again, or gives it up.

        Args:
            message: The task, as Taskiq has it.
            result: What became of it.
            error: What the handler raised.
        """
        from taskiq.exceptions import NoResultError
        from taskiq.kicker import AsyncKicker

        times = int(message.labels.get("_retries", 0))
        most = self._config.max_retries
        if (most is None or times < most) and not await self._is_cancelled(message.task_id):
            with contextlib.suppress(asyncio.TimeoutError):
                delay = min(2.0**times, _BACKOFF_MAX_S)
                await asyncio.wait_for(self._ends.wait(), delay)  # who comes after does it sooner
            labels = {**message.labels, "_retries": times + 1}
            again = AsyncKicker(message.task_name, self._broker, labels)
            await again.with_task_id(message.task_id).kiq(*message.args, **message.kwargs)
            self._counts["retried"] += 1
            result.error = NoResultError()
            return
        self._counts["failed"] += 1
        lines = traceback.format_exception(type(error), error, error.__traceback__)
        said = [str(error), str(message.args), str(message.kwargs), "".join(lines)]
        await self._pass_on(
            self._config.failed_task_queue_name, message.task_name, [message.task_id, *said]
        )

    async def unprocessable(self, name: str, task_id: str, message: bytes, why: str) -> None:
        """Called when nobody here can do a task.

        Args:
            name: The task's name.
            task_id: The task.
            message: What was in the queue.
            why: Why nobody can.
        """
        self._counts["unprocessable"] += 1
        said = [name, task_id, message.decode(errors="replace"), why, "{}"]
        await self._pass_on(self._config.unprocessable_task_queue_name, name, said)
        if self._results is not None and task_id:
            from taskiq import TaskiqResult

            made = TaskiqResult(
                is_err=True, return_value=None, execution_time=0, error=LookupError(why)
            )
            await self._results.set_result(task_id, made)

    async def _pass_on(self, queue: str | None, name: str, said: list[str]) -> None:
        from taskiq.kicker import AsyncKicker

        if not queue:
            return
        other = self._others.get(queue)
        if other is None:
            other = self._others[queue] = _made(self._told, queue)
            await other.startup()
        await AsyncKicker(name, other, {}).kiq(*said)

    # --- the loop

    def _wait(self, what: Coroutine[Any, Any, T]) -> T:
        return _submit(what).result()

    async def _wait_async(self, what: Coroutine[Any, Any, T]) -> T:
        return await asyncio.wrap_future(_submit(what))

    async def _start(self) -> None:
        if not self._started:
            await self._broker.startup()
            self._started = True

    def __del__(self) -> None:
        if getattr(self, "_broker", None) is not None:
            with contextlib.suppress(RuntimeError):  # the interpreter ends
                _submit(_close([self._broker, *self._others.values()]))

    def _need_results(self, what: str) -> None:
        if self._results is None:
            raise RuntimeError(
                f"{what}, Taskiq needs a place for results: give `result_backend_url`."
            )

    def _redis(self) -> Any:
        from redis.asyncio import Redis

        return Redis(connection_pool=self._results.redis_pool)


@functools.cache
def _loop() -> asyncio.AbstractEventLoop:
    """Return the event loop of this process's adapters, on a thread of its own."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="taskiq-loop", daemon=True).start()
    return loop


def _submit(what: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
    return asyncio.run_coroutine_threadsafe(what, _loop())


async def _close(brokers: list[Any]) -> None:
    """Give connections back; they come again where they are needed."""
    for broker in brokers:
        await broker.shutdown()


def _as_function(method: Callable[..., Any]) -> Callable[..., Any]:
    """Taskiq wants to name what it calls, which a method does not let it."""
    call: Callable[..., Any]
    if inspect.iscoroutinefunction(method):

        async def awaited(*args: Any, **kwargs: Any) -> Any:
            return await method(*args, **kwargs)

        call = awaited
    else:

        def called(*args: Any, **kwargs: Any) -> Any:
            return method(*args, **kwargs)

        call = called
    try:
        hints = get_type_hints(method, include_extras=True)  # Taskiq makes arguments what they say
    except Exception:
        call.__annotations__ = {}  # they name what is not there, or not yet
        return call
    call.__annotations__ = hints
    # Taskiq looks for the module, which is not there where the class has come by value.
    return functools.wraps(method, ["__name__", "__qualname__", "__doc__"])(call)


def _care_of(adapter: TaskiqTaskProcessorAdapter) -> Any:
    """The middleware that counts, and hears of errors; Taskiq is imported only where it is used."""
    from taskiq import TaskiqMiddleware

    known = weakref.ref(adapter)  # a sender that nobody has any more is to close its connections

    class Care(TaskiqMiddleware):  # type: ignore[misc] # without types
        async def on_error(self, message: Any, result: Any, exception: BaseException) -> None:
            found = known()
            if found is not None:
                await found.failed(message, result, exception)

        async def pre_execute(self, message: Any) -> Any:
            self._count("running", 1)
            return message

        async def post_execute(self, message: Any, result: Any) -> None:
            self._count("running", -1)
            self._count("succeeded", int(not result.is_err))

        def _count(self, what: str, number: int) -> None:
            found = known()
            if found is not None:
                found._counts[what] += number

    return Care()


def _receiver_of(
    adapter: TaskiqTaskProcessorAdapter,
    executor: concurrent.futures.ThreadPoolExecutor,
    more: dict[str, Any],
) -> Any:
    from taskiq import AckableMessage
    from taskiq.receiver import Receiver
    from taskiq.utils import maybe_awaitable

    broker = adapter._broker

    class Tasks(Receiver):  # type: ignore[misc] # without types
        async def callback(self, message: Any, raise_err: bool = False) -> None:
            """Take in a message: tasks that nobody can do, or nobody wants any more, end here."""
            data = message.data if isinstance(message, AckableMessage) else message
            name = task_id = why = ""
            try:
                found = broker.formatter.loads(message=data)
                name, task_id = found.task_name, found.task_id
                if broker.find_task(name) is None:
                    why = f"no handler is registered for {name!r}"
            except Exception as error:
                why = f"the message cannot be read: {error}"
            if why:
                await adapter.unprocessable(name or "unknown", task_id, data, why)
            elif not await adapter._is_cancelled(task_id):
                await super().callback(message, raise_err)
                return
            if isinstance(message, AckableMessage):
                await maybe_awaitable(message.ack())

    options = {"max_async_tasks": adapter._concurrency, "run_startup": False, **more}
    return Tasks(broker, executor=executor, **options)
