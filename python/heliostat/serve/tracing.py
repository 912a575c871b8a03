"""Traces of requests by OpenTelemetry: a span for each request at the HTTP server and at its replica, and for
each call of a handle.

Spans carry the names and attributes of Ray Serve's. What a client sends as ``traceparent`` (W3C Trace
Context) is the parent of the HTTP server's span, that one of the replica's; calls of handles take the present
span along, so that the spans of one request are one trace.

Nothing here imports OpenTelemetry before traces are asked for.
"""

from __future__ import annotations

import contextlib
import inspect
import os
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from heliostat.core.platform import serving
from heliostat.core.platform.extras import required
from heliostat.serve import logs
from heliostat.serve.context import ReplicaID, RequestContext
from heliostat.serve.options import TracingConfig, attribute
from heliostat.serve.specs import DeploymentID

_PARENT, _STATE = "traceparent", "tracestate"
_SCOPE = "ray.serve"

tracer: Any = None  # where this process writes spans: OpenTelemetry's


def set_up(config: TracingConfig | None, replica: ReplicaID, session_dir: str) -> None:
    """Have this process, which is the replica, write spans, if the configuration says so.

    Raises:
        ImportError: OpenTelemetry's SDK is missing, or the exporter's module.
        TypeError: The exporter is not a function without parameters that returns span processors.
    """
    global tracer
    if config is None or not config.enabled or tracer is not None:
        return
    sdk = required("opentelemetry.sdk.trace", "Tracing")
    sampling = required("opentelemetry.sdk.trace.sampling", "Tracing")
    resources = required("opentelemetry.sdk.resources", "Tracing")
    from opentelemetry import trace

    key = replica.deployment_id
    resource = resources.Resource.create({"service.name": f"{key.app_name}#{key.name}"})
    sampler = sampling.ParentBasedTraceIdRatio(config.sampling_ratio)
    provider = sdk.TracerProvider(sampler=sampler, resource=resource)
    for processor in _processors(config, logs.stem(replica), session_dir):
        provider.add_span_processor(processor)
    trace.set_tracer_provider(provider)
    tracer = provider.get_tracer(_SCOPE)
    serving.trace_calls()


def _processors(config: TracingConfig, stem: str, session_dir: str) -> list[Any]:
    if not config.exporter_import_path:
        return [_into_file(stem, session_dir)]
    path = config.exporter_import_path
    make = attribute(path)
    if not inspect.isfunction(make) or inspect.signature(make).parameters:
        raise TypeError(f"The exporter of traces, {path}, has to be a function without parameters.")
    made = make()
    kind = required("opentelemetry.sdk.trace", "Tracing").SpanProcessor
    if not isinstance(made, list) or not all(isinstance(one, kind) for one in made):
        raise TypeError(
            f"The exporter of traces, {path}, has to return a list of OpenTelemetry's SpanProcessor."
        )
    return made


def _into_file(stem: str, session_dir: str) -> Any:
    """Spans as JSON, one after the other, in ``logs/serve/spans`` of the session."""
    export = required("opentelemetry.sdk.trace.export", "Tracing")
    folder = os.path.join(logs.folder_of(session_dir), "spans")
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, f"{stem}_tracing.json")
    file = open(path, "a", encoding="utf-8")  # noqa: SIM115 - the process has it until its end
    return export.SimpleSpanProcessor(export.ConsoleSpanExporter(out=file))


class Written:
    """The exporter of the spans of a node's HTTP server, which has no Python and tells ended spans."""

    def __init__(self, config: TracingConfig, node: str, session_dir: str) -> None:
        """Raises as :func:`set_up`."""
        resources = required("opentelemetry.sdk.resources", "Tracing")
        self._resource = resources.Resource.create({"service.name": "proxy"})
        self._processors = _processors(config, f"proxy_{node}", session_dir)

    def write(self, rows: list[dict[str, Any]]) -> None:
        """Export them. Raises what the user's exporter raises."""
        for row in rows:
            span = self._span(row)
            for processor in self._processors:
                processor.on_end(span)

    def _span(self, row: dict[str, Any]) -> Any:
        sdk = required("opentelemetry.sdk.trace", "Tracing")
        scopes = required("opentelemetry.sdk.util.instrumentation", "Tracing")
        from opentelemetry import trace

        def place(span: str, is_remote: bool) -> Any:
            recorded = trace.TraceFlags(trace.TraceFlags.SAMPLED)
            return trace.SpanContext(int(row["trace"], 16), int(span, 16), is_remote, recorded)

        is_error = row.get("is_error")
        code = trace.StatusCode.ERROR if is_error else trace.StatusCode.UNSET
        return sdk.ReadableSpan(
            name=row["name"],
            context=place(row["span"], False),
            parent=place(row["parent"], True) if row["parent"] else None,
            resource=self._resource,
            attributes=_known(row["attributes"]),
            kind=trace.SpanKind.SERVER,
            status=trace.Status(code),
            start_time=row["began_us"] * 1000,
            end_time=row["ended_us"] * 1000,
            instrumentation_scope=scopes.InstrumentationScope(_SCOPE),
        )

    def end(self) -> None:
        """Export the spans that processors hold back."""
        for processor in self._processors:
            processor.force_flush()


def end() -> None:
    """Export the spans that processors hold back: the replica leaves."""
    if tracer is not None:
        from opentelemetry import trace

        provider: Any = trace.get_tracer_provider()
        provider.force_flush()


def carried(request: RequestContext) -> RequestContext:
    """The request with the present span of this thread or task as the parent of what its replica does.

    Also in a driver that has spans of its own.
    """
    if "opentelemetry.trace" not in sys.modules:
        return request
    from opentelemetry import trace
    from opentelemetry.trace.propagation import tracecontext

    if not trace.get_current_span().get_span_context().is_valid:
        return request
    carrier: dict[str, str] = {}
    tracecontext.TraceContextTextMapPropagator().inject(carrier)
    return request._replace(trace=(carrier.get(_PARENT, ""), carrier.get(_STATE, "")))


def of_headers(headers: list[tuple[bytes, bytes]]) -> tuple[str, str]:
    """Return the client's trace headers of the span that a request belongs to."""
    if tracer is None:
        return ("", "")
    found = {name: value.decode("latin-1") for name, value in headers if name.startswith(b"trace")}
    return found.get(_PARENT.encode(), ""), found.get(_STATE.encode(), "")


class Span:
    """A span that is written, or, where there are no traces, nothing."""

    def __init__(self, span: Any = None) -> None:
        self._span = span

    def of_http(self, method: str | None, status: int, route: str) -> None:
        """The answer over HTTP, if there is one: ``status`` is not 0."""
        if self._span is not None and status:
            said = {"http.method": method, "http.status_code": status, "http.route": route}
            self._span.set_attributes(_known(said))

    def of_rpc(self, path: str, code: int, error: BaseException | None) -> None:
        """The answer to a call of ``/package.Service/Method``; ``error`` is what the user's code raised."""
        if self._span is not None:
            service, _, method = path.strip("/").rpartition("/")
            said = {"rpc.system": "grpc", "rpc.method": method, "rpc.service": service}
            self._span.set_attributes({**said, "rpc.grpc.status_code": code})
            if error is not None:
                self.failed(error)

    def failed(self, error: BaseException) -> None:
        """The user's code raised that."""
        if self._span is not None:
            from opentelemetry.trace import Status, StatusCode

            self._span.record_exception(error)
            self._span.set_status(Status(StatusCode.ERROR, f"{type(error).__name__}: {error}"))


_NONE = contextlib.nullcontext(Span())


def of_replica(
    replica: ReplicaID, request: RequestContext, method: str, *, streams: bool = False
) -> contextlib.AbstractContextManager[Span]:
    """The span of a request at its replica; spans that user code begins within are its children."""
    return _NONE if tracer is None else _of_replica(replica, request, method, streams=streams)


@contextlib.contextmanager
def _of_replica(
    replica: ReplicaID, request: RequestContext, method: str, *, streams: bool
) -> Iterator[Span]:
    from opentelemetry.trace.propagation import tracecontext

    parent, state = request.trace
    carrier = {_PARENT: parent, _STATE: state}
    above = tracecontext.TraceContextTextMapPropagator().extract(carrier)
    key = replica.deployment_id
    attributes = {
        "request_id": request.request_id,
        "replica_id": replica.unique_id,
        "deployment": key.name,
        "app": key.app_name,
        "call_method": method,
        "route": request.route,
        "multiplexed_model_id": request.multiplexed_model_id,
        "is_streaming": streams,
    }
    from opentelemetry import context, trace

    span = tracer.start_span(
        f"replica_handle_request {key.name} {method}",
        context=above,
        kind=trace.SpanKind.SERVER,
        attributes=_known(attributes),
    )
    # For good: each request has a task, and a context, of its own.
    context.attach(trace.set_span_in_context(span))
    made = Span(span)
    try:
        yield made
    except Exception as error:
        made.failed(error)
        raise
    finally:
        span.end()


@contextlib.contextmanager
def of_call(
    called: DeploymentID, request: RequestContext, method: str, *, streams: bool = False
) -> Iterator[RequestContext]:
    """The span of a handle's call within a replica that traces, until the call is sent or has to wait.

    Gives the request as it goes on, below that span.
    """
    attributes = {
        "request_id": request.request_id,
        "deployment": called.name,
        "app": called.app_name,
        "call_method": method,
        "route": request.route,
        "multiplexed_model_id": request.multiplexed_model_id,
        "is_streaming": streams,
    }
    from opentelemetry import trace

    with tracer.start_as_current_span(
        f"route_to_replica {called.name} {method}",
        kind=trace.SpanKind.CLIENT,
        attributes=_known(attributes),
    ):
        yield carried(request)


def _known(attributes: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in attributes.items() if value not in (None, "")}
