"""``@serve.batch``: calls of one element each are run together.

A batched function that is a generator gives each of its calls a stream: every list that it yields has an
item for each call of the batch.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Any

from heliostat.serve.context import RequestContext, request_context
from heliostat.serve.exceptions import RayServeException

# The mark that a generator yields in place of an item for a call whose stream is over.
_ENDS = (StopIteration, StopAsyncIteration)


class _Call:
    """A call that waits for its batch and for its answer."""

    def __init__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.args = args
        self.kwargs = kwargs
        self.request: RequestContext = request_context.get()
        self.answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def is_over(self) -> bool:
        """Whether it was answered, has failed, or its caller has gone."""
        return self.answer.done()

    def finish(self, value: Any = None) -> None:
        """Answer it."""
        if not self.answer.done():
            self.answer.set_result(value)

    def fail(self, error: BaseException) -> None:
        """Raise in its caller."""
        if not self.answer.done():
            self.answer.set_exception(error)


class _Stream(_Call):
    """A call of a generator: items come before its end, which is its answer."""

    def __init__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        super().__init__(args, kwargs)
        self.items: deque[Any] = deque()
        self._news = asyncio.Event()
        self.answer.add_done_callback(lambda _: self._news.set())

    def give(self, item: Any) -> None:
        """The next item."""
        if not self.answer.done():
            self.items.append(item)
            self._news.set()

    async def read(self) -> AsyncIterator[Any]:
        """The items, and then the error if there is one."""
        try:
            while True:
                while self.items:
                    yield self.items.popleft()
                if self.answer.done():
                    self.answer.result()  # raises
                    return
                self._news.clear()
                await self._news.wait()
        finally:
            self.answer.cancel()  # a caller that leaves early; else without effect


class _Queue:
    """Calls of one function (of one instance) that wait for a batch."""

    def __init__(self, function: Callable[..., Any], options: Options) -> None:
        self.function = function
        self.options = options
        self.waiting: deque[_Call] = deque()
        self.fitting: list[Any] = []  # elements of the first that wait, known to be within a batch
        self.running = 0
        self.timer: asyncio.TimerHandle | None = None
        self.is_due = False
        self.tasks: set[asyncio.Task[None]] = set()

    def add(self, call: _Call) -> None:
        self.waiting.append(call)
        self.look()

    def look(self) -> None:
        """Begin batches that are full, or whose first call has waited for as long as it may."""
        while self.waiting and self.running < self.options.max_concurrent_batches:
            size, is_full = self._next_size()
            if not size:
                continue  # the first call was refused
            if not is_full and not self.is_due:
                if self.timer is None:
                    loop = asyncio.get_running_loop()
                    self.timer = loop.call_later(self.options.batch_wait_timeout_s, self.due)
                return
            self.is_due = False
            if self.timer is not None:
                self.timer.cancel()
                self.timer = None
            self.fitting.clear()
            batch = [self.waiting.popleft() for _ in range(size)]
            batch = [call for call in batch if not call.is_over()]
            if batch:
                self.running += 1
                task = asyncio.get_running_loop().create_task(self.run(batch))
                self.tasks.add(task)
                task.add_done_callback(self.tasks.discard)

    def _next_size(self) -> tuple[int, bool]:
        """The number of waiting calls that make the next batch, and whether no other fits into it.

        A call that alone is more than a batch, or that cannot be measured, is refused: then the first is 0.
        """
        most, measure = self.options.max_batch_size, self.options.batch_size_fn
        if measure is None:
            return min(len(self.waiting), most), len(self.waiting) >= most
        while len(self.fitting) < len(self.waiting):
            call = self.waiting[len(self.fitting)]
            try:
                size = measure([*self.fitting, _element(call)])
            except Exception as error:
                call.fail(error)
                del self.waiting[len(self.fitting)]
                return 0, False
            if size > most and not self.fitting:
                self.waiting.popleft().fail(
                    RuntimeError(
                        f"The size of this call by `batch_size_fn` is {size}, more than `max_batch_size` "
                        f"({most}): no batch can hold it."
                    )
                )
                return 0, False
            if size > most:
                return len(self.fitting), True
            self.fitting.append(_element(call))
            if size == most:
                return len(self.fitting), True
        return len(self.fitting), False

    def due(self) -> None:
        self.timer = None
        self.is_due = True
        self.look()

    async def run(self, batch: list[_Call]) -> None:
        """Run a batch; the calls for one multiplexed model by themselves, all at the same time."""
        parts: dict[str, list[_Call]] = {}
        for call in batch:
            parts.setdefault(call.request.multiplexed_model_id, []).append(call)
        try:
            await asyncio.gather(*(self._run_part(part) for part in parts.values()))
        finally:
            self.running -= 1
            self.look()

    async def _run_part(self, calls: list[_Call]) -> None:
        # `gather` gave it a context of its own. The model is that of all, the request id the first call's.
        request_context.set(calls[0].request)
        try:
            if len({(len(call.args), *sorted(call.kwargs)) for call in calls}) > 1:
                raise TypeError("The calls of a batch must have the same parameters.")
            columns = [list(column) for column in zip(*(call.args for call in calls), strict=True)]
            named = {name: [call.kwargs[name] for call in calls] for name in calls[0].kwargs}
            answers = self.function(*columns, **named)
            if inspect.isasyncgenfunction(self.function):
                await _deal(answers, calls)
            else:
                answers = await answers
                _check_length(answers, calls)
                for call, answer in zip(calls, answers, strict=True):
                    call.finish(answer)
        except BaseException as error:
            for call in calls:
                call.fail(error)


def _element(call: _Call) -> Any:
    """Return the element of a call that `batch_size_fn` measures: its first argument."""
    if not call.args:
        raise TypeError("`batch_size_fn` measures the first argument of calls; this call has none.")
    return call.args[0]


async def _deal(lists: AsyncIterator[Any], calls: list[_Call]) -> None:
    """Give the calls of a batch the items that its generator yields for them."""
    async for items in lists:
        _check_length(items, calls)
        for call, item in zip(calls, items, strict=True):
            assert isinstance(call, _Stream)
            if any(item is end for end in _ENDS):
                call.finish()
            else:
                call.give(item)
    for call in calls:
        call.finish()


def _check_length(answers: Any, calls: list[_Call]) -> None:
    if not hasattr(answers, "__len__"):
        raise TypeError(f"A batched function returns a list, not a {type(answers).__name__}.")
    if len(answers) != len(calls):
        raise RayServeException(
            f"A batched function returns as many answers as it gets calls: {len(calls)}, not "
            f"{len(answers)}."
        )


class Options:
    """The options of batches; setters check."""

    def __init__(
        self,
        max_batch_size: Any,
        batch_wait_timeout_s: Any,
        max_concurrent: Any,
        batch_size_fn: Any,
    ) -> None:
        self.set_max_batch_size(max_batch_size)
        self.set_wait(batch_wait_timeout_s)
        if not isinstance(max_concurrent, int) or max_concurrent < 1:
            raise TypeError(f"max_concurrent_batches must be an integer >= 1, got {max_concurrent}")
        self.max_concurrent_batches = max_concurrent
        if batch_size_fn is not None and not callable(batch_size_fn):
            raise TypeError(f"batch_size_fn must be a callable or None, got {type(batch_size_fn)}")
        self.batch_size_fn: Callable[[list[Any]], int] | None = batch_size_fn

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

    Calls for different multiplexed models are never in one batch. An ``async def`` function that yields
    lists makes each call an asynchronous generator of its own items; ``StopIteration`` in place of an item
    ends that call's.

    Calls raise what the function raises, ``RayServeException`` for a list of another length than the batch,
    and ``RuntimeError`` for an element that is larger than a batch by ``batch_size_fn``.

    Args:
        max_batch_size: How many calls a batch has at most. Default 10.
        batch_wait_timeout_s: Seconds after a batch's first call when it begins, full or not. Default
            0.01.
        max_concurrent_batches: How many batches run at once. Default 1.
        batch_size_fn: Measures a list of elements; a batch then has as many calls as stay within
            ``max_batch_size`` by that measure. Default: their number.

    Returns:
        The function, or a decorator of it.

    Raises:
        TypeError: The function is not ``async def``.
        ValueError: A number is below what makes sense.

    Examples:
        >>> from ray import serve
        >>> @serve.deployment(num_replicas=1)
        ... class Doubler:
        ...     @serve.batch(max_batch_size=4, batch_wait_timeout_s=0.05)
        ...     async def __call__(self, numbers):
        ...         return [2 * n for n in numbers]
        >>> handle = serve.run(Doubler.bind(), name="doubler", route_prefix=None)
        >>> [answer.result() for answer in [handle.remote(n) for n in (1, 2, 3)]]
        [2, 4, 6]
        >>> serve.delete("doubler")
    """
    options = Options(max_batch_size, batch_wait_timeout_s, max_concurrent_batches, batch_size_fn)

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        streams = inspect.isasyncgenfunction(function)
        if not streams and not inspect.iscoroutinefunction(function):
            raise TypeError("Functions decorated with @serve.batch must be 'async def'")
        name = f"_serve_batch_{function.__name__}"
        takes_self = _takes_self(function)
        signature = inspect.signature(function)
        alone: list[_Queue] = []

        def queue_of(instance: Any) -> _Queue:
            # Each instance has its own: an instance is not kept by its calls.
            queue = vars(instance).get(name)
            if queue is None:
                queue = vars(instance)[name] = _Queue(function.__get__(instance), options)
            return queue  # type: ignore[no-any-return] # set above

        def enqueue(kind: type[_Call], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            # A parameter is in the same place of each call, given by name or not.
            bound = signature.bind(*args, **kwargs)
            given = bound.args
            if takes_self:
                queue, given = queue_of(given[0]), given[1:]
            else:
                if not alone:
                    alone.append(_Queue(function, options))
                queue = alone[0]
            call = kind(given, bound.kwargs)
            queue.add(call)
            return call

        if streams:

            @functools.wraps(function)
            def called(*args: Any, **kwargs: Any) -> Any:
                return enqueue(_Stream, args, kwargs).read()

        else:

            @functools.wraps(function)
            async def called(*args: Any, **kwargs: Any) -> Any:
                return await enqueue(_Call, args, kwargs).answer

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
