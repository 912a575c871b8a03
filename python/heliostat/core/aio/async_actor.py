"""Async actors: their calls run on event loops.

Without concurrency groups there is one loop, on the main thread: the runtime marks an eventfd when work
has come; the loop reads it and starts what is there, in order, so many at a time. With groups each has a
loop on a thread of its own, so that a method that blocks its thread holds up its group only, and the main
thread hands calls out. A method that is not a coroutine runs on its group's loop too, at once.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import logging
import os
import threading
import traceback
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Mapping
from typing import Any, cast

from heliostat import _heliostat
from heliostat._heliostat import _RunningCall
from heliostat.core.aio import futures
from heliostat.core.aio.polling_selector import PollingSelector
from heliostat.core.platform import settings

logger = logging.getLogger("heliostat")

# So many pieces of work are looked at before other callbacks of the loop get their turn.
_WORK_MAX = 256

_call: contextvars.ContextVar[_RunningCall | None] = contextvars.ContextVar("call", default=None)
_server: _Server | None = None
_warned: set[str] = set()


_CARRIER = "_ray_trace_ctx"  # that of `tracing`, which most actors do without


def prepare(max_concurrency: int, groups: Mapping[str, int]) -> None:
    """Make the loops, before the constructor asks for one."""
    global _server
    kind = _ThreadedServer if groups else _LoopServer
    _server = kind(max_concurrency, groups)
    _heliostat._set_call_variable(_call)


def construct(cls: type, args: tuple[Any, ...], kwargs: dict[str, Any] | None) -> Any:
    """The actor, constructed on the loop of the default group; its constructor may be a coroutine."""
    assert _server is not None
    made, error = _server.run(_construct(cls, args, kwargs or {}))
    if error is not None:
        raise error
    return made


async def _construct(
    cls: type, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Any, BaseException | None]:
    if _CARRIER in kwargs:
        from heliostat.core.debug import tracing

        with tracing.within(kwargs.pop(_CARRIER)):
            return await _construct(cls, args, kwargs)
    # An exception that ends the process is not to end the loop.
    try:
        if not inspect.iscoroutinefunction(cls.__init__):  # type: ignore[misc] # looked at, not called
            return cls(*args, **kwargs), None
        made = cls.__new__(cls, *args, **kwargs)
        await made.__init__(*args, **kwargs)
        return made, None
    except BaseException as error:
        return None, error


def run(awaitable: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine when the calls are over."""
    assert _server is not None
    return _server.run(awaitable)


def serve() -> int:
    """Run calls until the process is to end; the exit code, as ``run_worker`` gives it."""
    assert _server is not None
    return _server.serve()


class _Group:
    """The calls that share a bound, on one event loop; used on that loop's thread only."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, max_concurrency: int, server: _Server
    ) -> None:
        self.loop = loop
        self.free = max_concurrency
        self.server = server
        self.waiting: deque[_RunningCall] = deque()
        # The loop's task for each call, and what that awaits.
        self.tasks: dict[_RunningCall, tuple[asyncio.Task[None], Any]] = {}

    def accept(self, call: _RunningCall) -> None:
        """Begin a call, or keep it until it has a place.

        The end may have been asked for on this thread before the main thread, which hands out calls,
        knows of it.
        """
        if _heliostat._asked_to_leave() is not None:
            self.server.over(1)
        elif self.free > 0 and not self.waiting:
            self.free -= 1
            contextvars.copy_context().run(self.start_here, call)
        else:
            self.waiting.append(call)

    def start_here(self, call: _RunningCall) -> None:
        """Begin a call that has a place, in a context of its own."""
        _call.set(call)
        try:
            awaited = call.invoke()
            if call.is_streaming:
                awaited = self.stream(call, awaited)
                steps = self.finish(call, awaited, call.finish_items)
            elif hasattr(awaited, "__await__") or inspect.isawaitable(awaited):
                steps = self.finish(call, awaited, call.finish)
            else:
                call.finish(awaited)
                self.done()
                return
        except BaseException as error:
            self.failed(call, error)
            self.done()
            return
        self.tasks[call] = self.loop.create_task(steps), awaited

    async def finish(
        self, call: _RunningCall, result: Awaitable[Any], answer: Callable[[Any], None]
    ) -> None:
        try:
            answer(await result)
        except BaseException as error:
            self.failed(call, error)
        finally:
            self.tasks.pop(call, None)
            self.done()

    async def stream(self, call: _RunningCall, items: Any) -> int:
        """Send what a generator yields, and count it. For a caller that bounds it, a thread waits."""
        index = 0
        async for item in _each(items):
            if call.backpressure:
                await self.loop.run_in_executor(None, call.send, index, item)
            else:
                call.send(index, item)
            index += 1
        return index

    def failed(self, call: _RunningCall, error: BaseException) -> None:
        code = call.fail(error)
        if code is not None:
            self.server.leave(code)

    def done(self) -> None:
        """A call is over, and its place is free."""
        self.free += 1
        if self.waiting:
            self.loop.call_soon(self.start_next)
        self.server.over(1)

    def start_next(self) -> None:
        """Give a place that became free to the call that has waited longest."""
        if _heliostat._asked_to_leave() is not None:
            self.stop()
        elif self.waiting and self.free > 0:
            self.free -= 1
            contextvars.copy_context().run(self.start_here, self.waiting.popleft())

    def cancel(self, task_id: bytes) -> None:
        """Cancel the call, if it is one of this group."""
        for call, (task, awaited) in self.tasks.items():
            if call.task != task_id:
                continue
            task.cancel()
            steps = cast("Coroutine[Any, Any, None]", task.get_coro())
            if inspect.getcoroutinestate(steps) == inspect.CORO_CREATED:
                # The coroutine has not begun, and will not come to the code that answers the call.
                close = getattr(awaited, "close", None)  # of a coroutine, or what stands for one
                if close is not None:
                    close()
                del self.tasks[call]
                self.failed(call, asyncio.CancelledError())
                self.done()
            return
        for call in self.waiting:
            if call.task == task_id:
                self.waiting.remove(call)
                self.failed(call, asyncio.CancelledError())
                self.server.over(1)
                return

    def stop(self) -> None:
        """Begin nothing any more."""
        dropped = len(self.waiting)
        self.waiting.clear()
        self.server.over(dropped)


class _Server:
    """Takes work from the runtime and hands it to the groups."""

    groups: dict[str, _Group]

    def __init__(self) -> None:
        # The exit code, once the process is to end when no call is left.
        self.code: int | None = None

    def run(self, awaitable: Coroutine[Any, Any, Any]) -> Any:
        """Run a coroutine on the loop of the default group, while no call runs."""
        raise NotImplementedError

    def serve(self) -> int:
        """Run calls until the process is to end."""
        raise NotImplementedError

    def tell(self, group: _Group, what: Callable[..., None], *args: Any) -> None:
        """Call a method of a group on its thread."""
        raise NotImplementedError

    def opened(self) -> None:
        """A call is about to go to its group."""
        raise NotImplementedError

    def over(self, calls: int) -> None:
        """Count calls that are over; called from any group's thread."""
        raise NotImplementedError

    def leave(self, code: int) -> None:
        """End at once; from any group's thread."""
        raise NotImplementedError

    def handle(self, work: Any) -> None:
        """A call, the id of one to cancel, or whether to drain before the end."""
        if isinstance(work, bytes):
            for group in self.groups.values():
                self.tell(group, group.cancel, work)
        elif isinstance(work, bool):
            self.end(work)
        elif self.code is None:
            group = self.groups.get(work.group) or self.groups[""]
            self.opened()
            self.tell(group, group.accept, work)

    def end(self, drain: bool) -> None:
        """End when that was asked for and the last call is over."""
        asked = _heliostat._asked_to_leave()
        if self.code is None:
            if asked is None and not drain:
                self.leave(-1)
                return
            self.code = asked or 0
            if asked is not None:
                for group in self.groups.values():
                    self.tell(group, group.stop)
        self.over(0)


class _Loop(asyncio.SelectorEventLoop):
    """The loop of the main thread, which looks for calls as soon as it has slept.

    As a callback of the loop that look would take another turn of it, a third of what a short call costs.
    """

    def __init__(self) -> None:
        self.polls = PollingSelector()
        super().__init__(self.polls)
        self.look = _hand_out

    def _run_once(self) -> None:
        # The names without a public one are the same in all versions of Python that there are.
        mine: Any = self
        if not mine._ready and not mine._stopping:
            left = mine._scheduled[0].when() - self.time() if mine._scheduled else None
            if left is None or left > 0:
                if self.polls.rest(left):
                    self.look()
                if not mine._ready and not self.polls.has_found():
                    return
        super()._run_once()  # type: ignore[misc] # not of the types that there are


def _hand_out() -> None:
    futures.waiters().hand_out()


class _LoopServer(_Server):
    """The calls of an actor without concurrency groups, on the main thread."""

    def __init__(self, max_concurrency: int, _groups: Mapping[str, int]) -> None:
        super().__init__()
        self.loop = _Loop()
        asyncio.set_event_loop(self.loop)
        self.group = _Group(self.loop, max_concurrency, self)
        self.groups = {"": self.group}
        self.open = 0
        self.ended: asyncio.Future[int] = self.loop.create_future()

    def run(self, awaitable: Coroutine[Any, Any, Any]) -> Any:
        return self.loop.run_until_complete(awaitable)

    def serve(self) -> int:
        return self.loop.run_until_complete(self._serve())

    async def _serve(self) -> int:
        fd = _heliostat.notify_fd()
        # One reader for both kinds of news: who reads the mark has to look at everything.
        futures.serve_on(self.loop, self.on_readable)
        self.loop.add_reader(fd, self.on_readable)
        self.loop.look = self.on_readable
        self.loop.call_soon(self.on_readable)
        try:
            return await self.ended
        finally:
            self.loop.look = _hand_out
            self.loop.remove_reader(fd)

    def on_readable(self) -> None:
        futures.waiters().hand_out()
        try:
            for _ in range(_WORK_MAX):
                work = _heliostat._next_call()
                if work is None:
                    return
                if type(work) is _RunningCall and self.code is None:
                    # As `handle` does it, without its questions.
                    self.open += 1
                    self.group.accept(work)
                else:
                    self.handle(work)
        except ConnectionError:
            self.leave(-1)  # the daemon is gone
            return
        self.loop.call_soon(self.on_readable)

    def tell(self, group: _Group, what: Callable[..., None], *args: Any) -> None:
        what(*args)

    def opened(self) -> None:
        self.open += 1

    def over(self, calls: int) -> None:
        self.open -= calls
        if self.code is not None and self.open == 0:
            self.leave(self.code)

    def leave(self, code: int) -> None:
        if not self.ended.done():
            self.ended.set_result(code)


class _ThreadedServer(_Server):
    """The calls of an actor with concurrency groups: a thread with a loop for each."""

    def __init__(self, max_concurrency: int, groups: Mapping[str, int]) -> None:
        super().__init__()
        self.lock = threading.Lock()
        self.open = 0
        self.at_once: int | None = None
        bounds = {"": max_concurrency, **groups}
        self.groups = {name: self._group(name, bound) for name, bound in bounds.items()}

    def _group(self, name: str, bound: int) -> _Group:
        loop = asyncio.new_event_loop()
        title = f"heliostat-{name or 'loop'}"
        threading.Thread(target=_run_loop, args=(loop,), name=title, daemon=True).start()
        return _Group(loop, bound, self)

    def run(self, awaitable: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(awaitable, self.groups[""].loop).result()

    def serve(self) -> int:
        while self.at_once is None and not self._is_drained():
            try:
                work = _heliostat._next_call(True)
            except ConnectionError:
                return -1  # the daemon is gone
            if work is not None:
                self.handle(work)
        code = self.code if self.at_once is None else self.at_once
        assert code is not None
        return code

    def _is_drained(self) -> bool:
        with self.lock:
            return self.code is not None and self.open == 0

    def tell(self, group: _Group, what: Callable[..., None], *args: Any) -> None:
        group.loop.call_soon_threadsafe(what, *args)

    def opened(self) -> None:
        with self.lock:
            self.open += 1

    def over(self, calls: int) -> None:
        with self.lock:
            self.open -= calls
            is_last = calls > 0 and self.open == 0 and self.code is not None
        if is_last:
            _heliostat._look_again()

    def leave(self, code: int) -> None:
        self.at_once = code
        _heliostat._look_again()


def _run_loop(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    except BaseException:
        # Not a call's error, which goes to its caller: the group is broken, and so is the actor.
        traceback.print_exc()
        os._exit(1)


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


def loops() -> list[asyncio.AbstractEventLoop]:
    """Return the event loops on which this process's calls run; none, if it is not an async actor."""
    return [] if _server is None else [group.loop for group in _server.groups.values()]


def warned(what: str) -> bool:
    """Whether a blocking call of this kind (``get``, ``wait``) has warned, or is not to."""
    return what in _warned


def set_warned(what: str, value: bool) -> None:
    """Have it not warn, or warn once again."""
    if value:
        _warned.add(what)
    else:
        _warned.discard(what)


def warn_blocking(what: str) -> None:
    """Tell once that a blocking call holds up the loop."""
    if what in _warned or not settings.flag("WARN_BLOCKING_GET_INSIDE_ASYNC"):
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
