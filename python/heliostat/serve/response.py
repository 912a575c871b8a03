"""The answer of a handle's call before its public classes: what they share, and how they wait."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
import time
from collections.abc import Callable
from typing import Any

import heliostat as ray
from heliostat.core.platform import serving
from heliostat.serve.exceptions import RayServeException, RequestCancelledError
from heliostat.serve.router import Call, was_not_begun

# How long a loop may take before it counts as held up.
_HELD_UP_S = 0.1


class Response(serving.ResponseBase):
    """A call that was made, and the part that its kinds of answers share."""

    _call: Call

    @property
    def request_id(self) -> str:
        """The id of the request that the call belongs to."""
        return self._call.context.request_id

    def cancel(self) -> None:
        """Cancel it: it leaves the queue, or ``asyncio.CancelledError`` is raised in the replica."""
        call = self._call
        if not call.router.cancel(call) and call.sent is not None:
            ray.cancel(call.sent)

    @property
    def by_reference(self) -> bool:
        """Whether arguments and the answer travel by the object store: always."""
        return True

    def cancelled(self) -> bool:
        """Whether it was cancelled before it was sent."""
        return isinstance(self._call.error, RequestCancelledError)

    def __del__(self) -> None:
        call = getattr(self, "_call", None)
        if call is not None and call.load is not None:
            try:
                call.watch()
            except Exception:
                call.release()  # the session is over

    def __reduce__(self) -> Any:
        raise RayServeException(
            f"A {type(self).__name__} is passed as an argument of a call of a handle, not inside another "
            "object: await it, or call result() first."
        )


def settled(call: Call, timeout_s: float | None) -> Any:
    """Wait until the call was sent; return the reference or the generator of its answer."""
    if not call.is_settled():
        event = threading.Event()
        call.when_settled(event.set)
        if not waited(event.wait, timeout_s):
            raise TimeoutError(f"No replica was free within {timeout_s} s.")
    if call.error is not None:
        raise call.error
    return call.sent


async def settled_async(call: Call) -> Any:
    """As ``settled``, for event loops."""
    if not call.is_settled():
        loop = asyncio.get_running_loop()
        news: asyncio.Future[None] = loop.create_future()

        def tell() -> None:
            if not news.done():
                news.set_result(None)

        def on_settled() -> None:
            loop.call_soon_threadsafe(tell)

        call.when_settled(on_settled)
        serving.settle_on(loop)
        await news
    if call.error is not None:
        raise call.error
    return call.sent


def waited(wait: Callable[[float | None], bool], timeout_s: float | None) -> bool:
    """Have ``wait`` wait so long, or any time; whether what it waits for has happened.

    What the router hears it hears on this process's loop, if that is one of a replica. Where the loop is held
    up, perhaps by who waits here, a thread does it.
    """
    soon = _HELD_UP_S if timeout_s is None else min(timeout_s, _HELD_UP_S)
    if wait(soon):
        return True
    if timeout_s is not None and timeout_s <= soon:
        return False
    serving.settle_in_thread()
    return wait(None if timeout_s is None else timeout_s - soon)


def forbid_loop() -> None:
    """Raise ``RuntimeError`` on an event loop, which a wait would hold up."""
    if asyncio._get_running_loop() is None:  # which raises nothing where there is none
        return
    raise RuntimeError(
        "This waits, and would hold up the event loop that it is called from. Use `await` instead."
    )


def is_done(future: concurrent.futures.Future[Any], timeout_s: float | None) -> bool:
    """Whether it has an outcome within that time."""
    return bool(concurrent.futures.wait([future], timeout_s).done)


def collected(answers: list[Any], return_exceptions: bool) -> list[Any]:
    """The answers without those of replicas that were ending; raises the first exception."""
    answers = [one for one in answers if not was_not_begun(one)]
    if not return_exceptions:
        for one in answers:
            if isinstance(one, BaseException):
                raise one
    return answers


def deadline(timeout_s: float | None) -> float | None:
    """Return when that many seconds are over; ``None``: never. Raises ``ValueError`` for less than 0."""
    if timeout_s is not None and timeout_s < 0:
        raise ValueError("timeout_s must be None or non-negative.")
    return None if timeout_s is None else time.monotonic() + timeout_s


def left(until: float | None) -> float | None:
    """Return how many seconds are left until then."""
    return None if until is None else max(0.0, until - time.monotonic())
