"""``@serve.batch``: calls of one element each are run together."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple


class _One(NamedTuple):
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    answer: asyncio.Future[Any]


class _Queue:
    """Calls of one function (of one instance) that wait for a batch."""

    def __init__(self, function: Callable[..., Any], options: Options) -> None:
        self.function = function
        self.options = options
        self.waiting: deque[_One] = deque()
        self.running = 0
        self.timer: asyncio.TimerHandle | None = None
        self.is_due = False
        self.tasks: set[asyncio.Task[None]] = set()

    def add(self, one: _One) -> None:
        self.waiting.append(one)
        self.look()

    def look(self) -> None:
        """Begin batches that are full, or whose first call has waited for as long as it may."""
        while self.waiting and self.running < self.options.max_concurrent_batches:
            if len(self.waiting) < self.options.max_batch_size and not self.is_due:
                if self.timer is None:
                    loop = asyncio.get_running_loop()
                    self.timer = loop.call_later(self.options.batch_wait_timeout_s, self.due)
                return
            self.is_due = False
            if self.timer is not None:
                self.timer.cancel()
                self.timer = None
            size = min(len(self.waiting), self.options.max_batch_size)
            batch = [self.waiting.popleft() for _ in range(size)]
            batch = [one for one in batch if not one.answer.done()]
            if batch:
                self.running += 1
                task = asyncio.get_running_loop().create_task(self.run(batch))
                self.tasks.add(task)
                task.add_done_callback(self.tasks.discard)

    def due(self) -> None:
        self.timer = None
        self.is_due = True
        self.look()

    async def run(self, batch: list[_One]) -> None:
        try:
            first = batch[0]
            columns = [list(column) for column in zip(*(one.args for one in batch), strict=True)]
            named = {name: [one.kwargs[name] for one in batch] for name in first.kwargs}
            if inspect.isasyncgenfunction(self.function):
                raise NotImplementedError("@serve.batch of generators does not work yet.")
            answers = await self.function(*columns, **named)
            if not isinstance(answers, list) and not hasattr(answers, "__len__"):
                raise TypeError(
                    f"A batched function returns a list, not a {type(answers).__name__}."
                )
            if len(answers) != len(batch):
                raise ValueError(
                    f"A batched function returns as many answers as it gets calls: {len(batch)}, "
                    f"not {len(answers)}."
                )
            for one, answer in zip(batch, answers, strict=True):
                if not one.answer.done():
                    one.answer.set_result(answer)
        except BaseException as error:
            for one in batch:
                if not one.answer.done():
                    one.answer.set_exception(error)
        finally:
            self.running -= 1
            self.look()


class Options:
    """What batches are made by; setters check."""

    def __init__(self, max_batch_size: Any, batch_wait_timeout_s: Any, max_concurrent: Any) -> None:
        self.set_max_batch_size(max_batch_size)
        self.set_wait(batch_wait_timeout_s)
        if not isinstance(max_concurrent, int) or max_concurrent < 1:
            raise ValueError("max_concurrent_batches must be an integer >= 1.")
        self.max_concurrent_batches = max_concurrent

    def set_max_batch_size(self, size: Any) -> None:
        if isinstance(size, float) and size.is_integer():
            size = int(size)
        if not isinstance(size, int):
            raise TypeError("max_batch_size must be integer >= 1")
        if size < 1:
            raise ValueError("max_batch_size must be an integer >= 1")
        self.max_batch_size = size

    def set_wait(self, seconds: Any) -> None:
        if not isinstance(seconds, float | int):
            raise TypeError("batch_wait_timeout_s must be a float >= 0")
        if seconds < 0:
            raise ValueError("batch_wait_timeout_s must be a float >= 0")
        self.batch_wait_timeout_s = seconds


def batch(
    _func: Callable[..., Any] | None = None,
    /,
    max_batch_size: int = 10,
    batch_wait_timeout_s: float = 0.01,
    max_concurrent_batches: int = 1,
    batch_size_fn: Callable[[list[Any]], int] | None = None,
) -> Any:
    """Have calls of one element each run together: the function gets lists and returns a list.

    A batch begins with ``max_batch_size`` calls, or ``batch_wait_timeout_s`` seconds after its first.
    """
    if batch_size_fn is not None:
        raise NotImplementedError("`batch_size_fn` of @serve.batch does not work yet.")
    options = Options(max_batch_size, batch_wait_timeout_s, max_concurrent_batches)

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        if not inspect.iscoroutinefunction(function) and not inspect.isasyncgenfunction(function):
            raise TypeError("Functions decorated with @serve.batch must be 'async def'")
        name = f"_serve_batch_{function.__name__}"
        takes_self = _takes_self(function)
        alone: list[_Queue] = []

        @functools.wraps(function)
        async def called(*args: Any, **kwargs: Any) -> Any:
            if takes_self:
                # Each instance has its own: an instance is not kept by its calls.
                instance, *rest = args
                queue = vars(instance).get(name)
                if queue is None:
                    queue = _Queue(function.__get__(instance), options)
                    vars(instance)[name] = queue
            else:
                rest = list(args)
                if not alone:
                    alone.append(_Queue(function, options))
                queue = alone[0]
            answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
            queue.add(_One(tuple(rest), kwargs, answer))
            return await answer

        called.set_max_batch_size = options.set_max_batch_size  # type: ignore[attr-defined] # Ray's
        called.set_batch_wait_timeout_s = options.set_wait  # type: ignore[attr-defined] # Ray's
        return called

    return decorate(_func) if callable(_func) else decorate


def _takes_self(function: Callable[..., Any]) -> bool:
    """Whether it is a method: defined in a class, with a first parameter for the instance."""
    if not next(iter(inspect.signature(function).parameters), None):
        return False
    parent = function.__qualname__.rpartition(".")[0]
    return bool(parent) and not parent.endswith("<locals>")
