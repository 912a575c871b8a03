"""Spans of tasks and actors by OpenTelemetry: one where a call is made, one where it runs, as its child.

A driver that begins with a hook (``ray.init(_tracing_startup_hook="module:function")``, the same flag of
``start``, or RAY_TRACING_STARTUP_HOOK) traces. The hook, a function without parameters, sets OpenTelemetry's
provider up. It travels with each call, and a worker runs it before the first one that has it. Calls within
a traced call are traced.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import os
from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Iterator, Mapping
from typing import Any

from heliostat import _heliostat

_HOOK, _NAME, _KIND = "ray.hook", "ray.name", "ray.kind"

_hook = ""  # that this process has run


def start(hook: str) -> None:
    """Trace from now on: run the hook, ``module:function``.

    Raises:
        ValueError: It is not of that form, or there is no such function.
        ImportError: Its module, or OpenTelemetry, is missing.
    """
    global _hook
    from heliostat.core.platform.extras import required

    required("opentelemetry.sdk.trace", "Tracing")
    function = _imported(hook)
    if hook != _hook:
        function()
    _hook = hook
    _heliostat.set_tracer(_begun)


def end() -> None:
    """Calls have no spans any more; the provider stays as it is."""
    global _hook
    if _hook:
        _hook = ""
        _heliostat.set_tracer(None)


def _imported(hook: str) -> Callable[[], object]:
    name, _, path = hook.partition(":")
    if not name or not path:
        raise ValueError(f"The tracing hook has to be written as module:function, not {hook!r}.")
    found: Any = importlib.import_module(name)
    for part in path.split("."):
        if not hasattr(found, part):
            raise ValueError(f"The tracing hook {hook!r}: {name} has no {path}.")
        found = getattr(found, part)
    if not callable(found):
        raise ValueError(f"The tracing hook {hook!r} is not a function.")
    made: Callable[[], object] = found
    return made


def _begun(kind: str, name: str, actor: str) -> tuple[Any, dict[str, str]]:
    """The span of a call that goes out, and what travels with the call."""
    from opentelemetry import propagate, trace

    span = trace.get_tracer(__name__).start_span(
        f"{name} ray.remote",
        kind=trace.SpanKind.PRODUCER,
        attributes=_attributes(kind, name, {"ray.actor_id": actor}),
    )
    carried = {_HOOK: _hook, _NAME: name, _KIND: kind}
    propagate.inject(carried, trace.set_span_in_context(span))
    return span, carried


def _attributes(kind: str, name: str, more: Mapping[str, str | None]) -> dict[str, str]:
    told = {"ray.remote": kind, "ray.function": name, "ray.pid": str(os.getpid())}
    if kind == "actor":
        told["ray.actor_class"], _, told["ray.actor_method"] = name.rpartition(".")
    here = _heliostat.session()
    told["ray.job_id"], told["ray.node_id"] = here["job_id"], here["node_id"]
    told["ray.worker_id"] = here["worker_id"]
    return {**told, **{key: value for key, value in more.items() if value}}


@contextlib.contextmanager
def within(carried: Mapping[str, str]) -> Iterator[None]:
    """The span of a call that runs here; spans that user code begins are its children."""
    if carried[_HOOK] != _hook:
        start(carried[_HOOK])
    from opentelemetry import context, propagate, trace

    present = _heliostat.current()
    more = {"ray.task_id": present.task_id, "ray.actor_id": present.actor_id}
    token = context.attach(propagate.extract(carried))
    try:
        with trace.get_tracer(__name__).start_as_current_span(
            f"{carried[_NAME]} ray.remote_worker",
            kind=trace.SpanKind.CONSUMER,
            attributes=_attributes(carried[_KIND], carried[_NAME], more),
        ):
            yield
    finally:
        context.detach(token)


def run(
    carried: Mapping[str, str],
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    """Call a function of the user within the span of its call.

    The span of a coroutine or generator ends with it.
    """
    if inspect.iscoroutinefunction(function):
        return _awaited(carried, function(*args, **kwargs))
    if inspect.isgeneratorfunction(function):
        return _items(carried, function(*args, **kwargs))
    if inspect.isasyncgenfunction(function):
        return _items_in_time(carried, function(*args, **kwargs))
    with within(carried):
        return function(*args, **kwargs)


async def _awaited(carried: Mapping[str, str], coroutine: Coroutine[Any, Any, Any]) -> Any:
    with within(carried):
        return await coroutine


def _items(carried: Mapping[str, str], items: Generator[Any, Any, Any]) -> Iterator[Any]:
    with within(carried):
        yield from items


async def _items_in_time(carried: Mapping[str, str], items: Any) -> AsyncIterator[Any]:
    with within(carried):
        async for item in items:
            yield item
