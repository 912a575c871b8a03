"""Responses among the arguments of a call: references to their values go in their place.

The values go to the next call without a stop in this process.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from heliostat.serve.response import Response
from heliostat.serve.router import Call

# Called with an error, or None, and the arguments.
Then = Callable[[BaseException | None, tuple[Any, ...], dict[str, Any]], None]


def after(given: list[Response], args: tuple[Any, ...], kwargs: dict[str, Any], then: Then) -> None:
    """Call ``then`` once the calls of the ``given`` responses among the arguments are on their way."""
    pending = len(given)
    lock = threading.Lock()
    calls = {id(one): one._call for one in given}

    def reference(value: Any) -> Any:
        call = calls.get(id(value))
        return value if call is None else call.sent

    def go() -> None:
        error = next((call.error for call in calls.values() if call.error is not None), None)
        named = {name: reference(value) for name, value in kwargs.items()}
        then(error, tuple(map(reference, args)), named)

    def settled() -> None:
        nonlocal pending
        with lock:
            pending -= 1
            if pending:
                return
        go()

    if not given:
        go()
    for one in given:
        one._call.when_settled(settled)


def submit_after(given: list[Response], call: Call) -> None:
    """Submit a call once the calls of the ``given`` responses among its arguments are on their way."""

    def submit(error: BaseException | None, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if error is not None:
            call.settle(None, error)
            return
        call.args, call.kwargs = args, kwargs
        call.router.submit(call)

    after(given, call.args, call.kwargs, submit)
