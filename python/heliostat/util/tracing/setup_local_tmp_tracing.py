"""A hook for ``ray.init(_tracing_startup_hook=…)``: each process writes its spans to ``/tmp/spans``."""

from __future__ import annotations

import os

from heliostat.core.platform.extras import required

spans_dir = "/tmp/spans/"


def setup_tracing() -> None:
    """Write the spans of this process to ``/tmp/spans/<pid>.txt``, each a line of JSON.

    Raises:
        ImportError: OpenTelemetry's SDK is missing; ``heliostat[tracing]`` brings it.
    """
    sdk = required("opentelemetry.sdk.trace", "Tracing")
    export = required("opentelemetry.sdk.trace.export", "Tracing")
    from opentelemetry import trace

    os.makedirs(spans_dir, exist_ok=True)
    path = os.path.join(spans_dir, f"{os.getpid()}.txt")
    file = open(path, "w", encoding="utf-8")  # noqa: SIM115 - the process has it until its end
    exporter = export.ConsoleSpanExporter(
        out=file, formatter=lambda span: span.to_json(indent=None) + os.linesep
    )
    provider = sdk.TracerProvider()
    provider.add_span_processor(export.SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
