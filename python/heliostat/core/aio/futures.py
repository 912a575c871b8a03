"""References as futures: `await ref`, `asyncio.gather(ref, ...)`, `ref.future()`.

The runtime marks an eventfd when something watched is ready. Each loop that waits reads it, and so does
a thread as soon as somebody waits without a loop; whoever comes first hands everything out.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import select
import threading
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from heliostat import _heliostat

if TYPE_CHECKING:
    from heliostat._heliostat import ObjectRef, ObjectRefGenerator

    Waiter = Callable[[Any, BaseException | None], None]
    # The value is looked at, or only waited for.
    Entry = tuple[ObjectRef, list[Waiter], bool]


# The loop of an async actor, which looks for work in the same place, and how it looks.
_served: tuple[asyncio.AbstractEventLoop, Callable[[], None]] | None = None


class _Waiters:
    """The futures that wait for objects, in one session."""

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.fd = _heliostat.notify_fd()
        self.lock = threading.Lock()
        # The reference is kept so that the object outlives the wait.
        self.waiting: dict[bytes, Entry] = {}
        self.loops: weakref.WeakSet[asyncio.AbstractEventLoop] = weakref.WeakSet()
        self.thread: threading.Thread | None = None

    def add(self, ref: ObjectRef, waiter: Waiter, reads: bool = True) -> None:
        """Call `waiter` once, with the value or the exception, from whichever thread finds it.

        Without `reads` the value is not looked at, and `None` is passed.
        """
        key = ref.binary()
        with self.lock:
            _, others, wanted = self.waiting.get(key, (ref, [], False))
            self.waiting[key] = (ref, [*others, waiter], wanted or reads)
        self.look(key)

    def listen(self, loop: asyncio.AbstractEventLoop) -> None:
        """Hand out on that loop from now on."""
        if (_served is not None and _served[0] is loop) or loop in self.loops:
            return
        self.loops.add(loop)
        loop.add_reader(self.fd, self.on_readable)

    def listen_in_thread(self) -> None:
        """Hand out in a thread, for those who have no loop."""
        with self.lock:
            if self.thread is None:
                self.thread = threading.Thread(
                    target=self._run, name="heliostat-futures", daemon=True
                )
                self.thread.start()

    def _run(self) -> None:
        from heliostat.core import session
        from heliostat.core.errors import RaySystemError

        poll = select.poll()
        poll.register(self.fd, select.POLLIN)
        with session.chosen(self.epoch), session.begins_none():
            try:
                while _heliostat.is_connected():
                    if poll.poll(1000):
                        self.on_readable()
            except RaySystemError:
                # The session may end while we look.
                if _heliostat.is_connected():
                    raise

    def on_readable(self) -> None:
        """Clear the mark, then look: what comes later marks it again."""
        before = _heliostat.choose_session(self.epoch)
        try:
            if _heliostat.is_connected():
                self._read_mark()
        finally:
            _heliostat.choose_session(before)

    def _read_mark(self) -> None:
        _heliostat.clear_notification()
        if _served is not None:
            # The mark may have stood for work.
            _served[0].call_soon_threadsafe(_served[1])
        self.hand_out()

    def hand_out(self) -> None:
        """Settle whatever has become ready."""
        for key in _heliostat.take_ready():
            self.look(key)

    def look(self, key: bytes) -> None:
        """Give an object's value to those who wait for it, or watch it if it is not here.

        A value that was here a moment ago may have made room for others.
        """
        with self.lock:
            entry = self.waiting.get(key)
        if entry is None or not _heliostat.watch(entry[0], entry[2]):
            return
        with self.lock:
            if self.waiting.get(key) is not entry:
                return  # who changed it looks, too
            del self.waiting[key]
        ref, waiters, reads = entry
        value, error = _outcome(ref) if reads else (None, None)
        for waiter in waiters:
            waiter(value, error)


# By session; of those that are over there may be some left.
_waiters: dict[int, _Waiters] = {}
_waiters_lock = threading.Lock()


def waiters() -> _Waiters:
    """Return the futures that wait in the present session."""
    epoch = _heliostat.session_epoch()
    found = _waiters.get(epoch)
    if found is None:
        with _waiters_lock:
            found = _waiters.get(epoch)
            if found is None:
                found = _waiters[epoch] = _Waiters(epoch)
    return found


def forget(epoch: int) -> None:
    """Forget the waiters of a session that is over."""
    with _waiters_lock:
        _waiters.pop(epoch, None)


def serve_on(loop: asyncio.AbstractEventLoop, look: Callable[[], None]) -> None:
    """Note that the loop reads the mark itself, and calls :meth:`_Waiters.hand_out` each time."""
    global _served
    _served = loop, look


def as_future(ref: ObjectRef) -> asyncio.Future[Any]:
    """A future of the running loop."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()
    if _heliostat.is_ready(ref):
        # The common case in a worker: nothing to watch, no wake-up.
        _settle(future, *_outcome(ref))
        return future
    thread = threading.get_ident()

    def waiter(value: Any, error: BaseException | None) -> None:
        if threading.get_ident() == thread:
            _settle(future, value, error)
        elif not loop.is_closed():
            loop.call_soon_threadsafe(_settle, future, value, error)

    found = waiters()
    found.listen(loop)
    found.add(ref, waiter)
    return future


def _outcome(ref: ObjectRef) -> tuple[Any, BaseException | None]:
    try:
        return _heliostat.take(ref), None
    except Exception as error:
        return None, error


def _settle(future: asyncio.Future[Any], value: Any, error: BaseException | None) -> None:
    if future.done():
        return  # cancelled
    if error is not None:
        future.set_exception(_raisable(error))
    else:
        future.set_result(value)


def _raisable(error: BaseException) -> BaseException:
    """Futures refuse ``StopIteration``, which would end the coroutine that awaits."""
    if not isinstance(error, StopIteration):
        return error
    wrapped = RuntimeError(f"the task raised StopIteration: {error}")
    wrapped.__cause__ = error
    return wrapped


async def next_item(generator: ObjectRefGenerator) -> ObjectRef:
    """The next item of a stream; raises ``StopAsyncIteration`` at its end."""
    loop = asyncio.get_running_loop()
    while True:
        ref = generator._try_next()
        if ref is not None:
            return ref
        news = asyncio.Event()

        def wake(_value: Any, _error: BaseException | None, news: asyncio.Event = news) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(news.set)

        found = waiters()
        found.listen(loop)
        # The next item, or the end.
        found.add(generator._peek_next(), wake, reads=False)
        found.add(generator.completed(), wake, reads=False)
        await news.wait()


def concurrent_future(ref: ObjectRef) -> concurrent.futures.Future[Any]:
    """A future for threads."""
    future: concurrent.futures.Future[Any] = concurrent.futures.Future()
    future.set_running_or_notify_cancel()

    def waiter(value: Any, error: BaseException | None) -> None:
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(value)

    on_settled(ref, waiter)
    return future


def on_completed(ref: ObjectRef, callback: Callable[[Any], None]) -> None:
    """Call back with the value, or with the exception in its place."""
    on_settled(ref, lambda value, error: callback(value if error is None else error))


def on_completed_by_loop(ref: ObjectRef, callback: Callable[[Any], None]) -> None:
    """As ``on_completed``, by the loop of an async actor if this is one.

    A thread beside it would wake at each piece of news, and most of that is for the loop. Whoever holds up
    the loop, or waits for something that may, calls :func:`settle_in_thread`.
    """
    found = waiters()
    if _served is None:
        found.listen_in_thread()
    if _heliostat.is_ready(ref):
        value, error = _outcome(ref)
        callback(value if error is None else error)
    else:
        found.add(ref, lambda value, error: callback(value if error is None else error))


def settle_on(loop: asyncio.AbstractEventLoop) -> None:
    """From now on that loop, which runs in this thread, calls back, too."""
    waiters().listen(loop)


def settle_in_thread() -> None:
    """From now on a thread calls back, too, whatever the loop does."""
    waiters().listen_in_thread()


def on_settled(ref: ObjectRef, waiter: Waiter) -> None:
    """Call `waiter` from a thread once the object is there."""
    found = waiters()
    found.listen_in_thread()
    if _heliostat.is_ready(ref):
        waiter(*_outcome(ref))
    else:
        found.add(ref, waiter)
