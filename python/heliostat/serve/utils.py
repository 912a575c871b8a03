"""The trace of the request that runs here."""

from __future__ import annotations

from typing import Any

from heliostat.serve import tracing

__all__ = ["get_trace_context"]


def get_trace_context() -> Any:
    """The present context of OpenTelemetry, for spans of a deployment's own; ``None`` without traces.

    Spans that begin in the code of a request are children of the request's anyway: this is for those that
    begin elsewhere, in a thread, say.

    Returns:
        A ``Context`` of OpenTelemetry, or ``None``.

    Examples:
        >>> from ray import serve
        >>> def traced(tracer, work):  # in a thread that a request has started
        ...     with tracer.start_as_current_span("work", context=serve.get_trace_context()):
        ...         return work()
        >>> serve.get_trace_context() is None  # no traces here
        True
    """
    if tracing.tracer is None:
        return None
    from opentelemetry import context

    return context.get_current()
