"""Async actors: their calls run on an event loop on the main thread.

The runtime marks an eventfd when work has come; the loop reads it and starts what is there, in order,
so many at a time per concurrency group. A method that is no coroutine runs on the loop too, at once.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import logging
import os
from collections import deque
from collections.abc import AsyncIterator, Coroutine, Iterator
from typing import TYPE_CHECKING, Any

from heliostat import _heliostat
from heliostat.core import aio
from heliostat.core.polling_selector import PollingSelector

if TYPE_CHECKING:
    from heliostat._heliostat import _RunningCall

logger = logging.getLogger("heliostat")

# So many pieces of work are looked at before other callbacks of the loop get their turn.
_WORK_MAX = 256

_call: contextvars.ContextVar[_RunningCall | None] = contextvars.ContextVar("call", default=None)
_loop: asyncio.AbstractEventLoop | None = None
_warned: set[str] = set()


def prepare() -> None:
    """Make the loop, before the constructor asks for it."""
    global _loop
    _loop = asyncio.SelectorEventLoop(PollingSelector())
    asyncio.set_event_loop(_loop)
    _heliostat._set_call_variable(_call)


def construct(cls: type, args: tuple[Any, ...], kwargs: dict[str, Any] | None) -> Any:
    """The actor; its constructor may be a coroutine."""
    kwargs = kwargs or {}
    if not inspect.iscoroutinefunction(cls.__init__):  # type: ignore[misc] # looked at, not called
        return cls(*args, **kwargs)
    assert _loop is not None
    made = cls.__new__(cls, *args, **kwargs)
    _loop.run_until_complete(made.__init__(*args, **kwargs))
    return made


def run(awaitable: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine when the calls are over."""
    assert _loop is not None
    return _loop.run_until_complete(awaitable)


def serve(max_concurrency: int, groups: dict[str, int]) -> int:
    """Run the loop until the process is to end; the exit code, as ``run_worker`` gives it."""
    assert _loop is not None
    server = _Server(_loop, max_concurrency, groups)
    return _loop.run_until_complete(server.run())


class _Group:
    """The calls that share a bound."""

    def __init__(self, max_concurrency: int) -> None:
        self.free = max_concurrency
        self.waiting: deque[_RunningCall] = deque()


class _Server:
    def __init__(
        self, loop: asyncio.AbstractEventLoop, max_concurrency: int, groups: dict[str, int]
    ) -> None:
        self.loop = loop
        self.groups = {"": _Group(max_concurrency)}
        self.groups.update((name, _Group(bound)) for name, bound in groups.items())
        self.tasks: dict[bytes, asyncio.Task[None]] = {}
        self.ended: asyncio.Future[int] = loop.create_future()
        self.draining = False

    async def run(self) -> int:
        fd = _heliostat.notify_fd()
        # One reader for both kinds of news: who reads the mark has to look at everything.
        aio.serve_on(self.loop, self.on_readable)
        self.loop.add_reader(fd, self.on_readable)
        self.loop.call_soon(self.on_readable)
        try:
            return await self.ended
        finally:
            self.loop.remove_reader(fd)

    def on_readable(self) -> None:
        aio.waiters().hand_out()
        try:
            for _ in range(_WORK_MAX):
                work = _heliostat._next_call()
                if work is None:
                    return
                self.handle(work)
        except ConnectionError:
            self.leave(-1)  # the daemon is gone
            return
        self.loop.call_soon(self.on_readable)

    def handle(self, work: Any) -> None:
        """A call, the id of one to cancel, or whether to drain before the end."""
        if isinstance(work, bytes):
            self.cancel(work)
        elif isinstance(work, bool):
            self.draining = work
            if not work:
                self.leave(-1)
            else:
                self.leave_if_drained()
        else:
            group = self.groups.get(work.group) or self.groups[""]
            if group.free > 0:
                group.free -= 1
                self.start(work, group)
            else:
                group.waiting.append(work)

    def start(self, call: _RunningCall, group: _Group) -> None:
        """Begin a call that has a place in its group."""
        context = contextvars.copy_context()
        context.run(_call.set, call)
        try:
            result = context.run(call.invoke)
            if call.is_streaming:
                steps = self.stream(call, result)
            elif inspect.isawaitable(result):
                steps = self.answer(call, result)
            else:
                call.finish(result)
                self.done(call, group)
                return
        except BaseException as error:
            self.failed(call, error)
            self.done(call, group)
            return
        task = context.run(self.loop.create_task, self.finish(call, group, steps))
        self.tasks[call.task] = task

    async def finish(self, call: _RunningCall, group: _Group, steps: Any) -> None:
        try:
            await steps
        except BaseException as error:
            self.failed(call, error)
        finally:
            self.tasks.pop(call.task, None)
            self.done(call, group)

    async def answer(self, call: _RunningCall, result: Any) -> None:
        call.finish(await result)

    async def stream(self, call: _RunningCall, items: Any) -> None:
        """Send what a generator yields. Where the caller bounds it, sending waits in a thread."""
        index = 0
        async for item in _each(items):
            if call.backpressure:
                await self.loop.run_in_executor(None, call.send, index, item)
            else:
                call.send(index, item)
            index += 1
        call.finish_items(index)

    def failed(self, call: _RunningCall, error: BaseException) -> None:
        code = call.fail(error)
        if code is not None:
            self.leave(code)

    def done(self, call: _RunningCall, group: _Group) -> None:
        """A place in the group is free."""
        group.free += 1
        while group.waiting and group.free > 0:
            group.free -= 1
            self.loop.call_soon(self.start, group.waiting.popleft(), group)
        if self.draining:
            self.leave_if_drained()

    def cancel(self, task_id: bytes) -> None:
        running = self.tasks.get(task_id)
        if running is not None:
            running.cancel()
            return
        for group in self.groups.values():
            for call in group.waiting:
                if call.task == task_id:
                    group.waiting.remove(call)
                    self.failed(call, asyncio.CancelledError())
                    return

    def leave_if_drained(self) -> None:
        busy = self.tasks or any(group.waiting for group in self.groups.values())
        if not busy:
            self.leave(0)

    def leave(self, code: int) -> None:
        if not self.ended.done():
            self.ended.set_result(code)


async def _each(items: Any) -> AsyncIterator[Any]:
    """The items of a generator of either kind."""
    if hasattr(items, "__anext__"):
        async for item in items:
            yield item
    elif hasattr(items, "__next__"):
        for item in items:
            yield item
            # Other calls get their turn, as they do between the items of an async generator.
            await asyncio.sleep(0)
    else:
        raise TypeError(f"a streaming call has to return a generator, not {type(items)}")


def drive(items: Any) -> Iterator[Any]:
    """The items of an async generator in a task, which has no loop of its own."""
    loop = asyncio.new_event_loop()
    try:
        while True:
            try:
                yield loop.run_until_complete(items.__anext__())
            except StopAsyncIteration:
                return
    finally:
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


def warn_blocking(what: str) -> None:
    """Tell once that a blocking call holds up the loop."""
    if what in _warned or os.environ.get("RAY_WARN_BLOCKING_GET_INSIDE_ASYNC") in ("0", "false"):
        return
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return  # in another thread, where blocking does no harm
    _warned.add(what)
    if what == "get":
        logger.warning(
            "Using blocking ray.get inside async actor. This blocks the event loop. Please use "
            "`await` on object ref with asyncio.gather if you want to yield execution to the event "
            "loop instead."
        )
    else:
        logger.debug(
            "Using blocking ray.wait inside async method. This blocks the event loop. Please use "
            "`await` on object ref with asyncio.wait."
        )
