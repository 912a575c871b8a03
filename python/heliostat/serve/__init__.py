"""Serve: classes and functions that answer over HTTP and through handles, in replicas.

Reading order: ``deployment`` (what is served), ``api`` (how it is started), ``controller`` (which replicas
there are), ``replica`` (where requests run), ``router`` and ``handle`` (calls from Python). The HTTP server
is the crate ``helio-ingress``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from heliostat.serve import (
    config,
    context,
    exceptions,
    handle,
    metrics,
    schema,
    starlette_modules,
)
from heliostat.serve.api import (
    RunTarget,
    delete,
    deployment,
    get_app_handle,
    get_deployment_handle,
    run,
    run_many,
    shutdown,
    shutdown_async,
    start,
    status,
)
from heliostat.serve.asgi import ingress
from heliostat.serve.batching import batch
from heliostat.serve.context import (
    get_deployment_actor,
    get_deployment_actor_context,
    get_replica_context,
)
from heliostat.serve.deployment import Application, Deployment
from heliostat.serve.multiplex import get_multiplexed_model_id, multiplexed
from heliostat.serve.utils import get_trace_context

if TYPE_CHECKING:
    from heliostat.serve.models import ControllerOptions, HTTPOptions, TracingConfig

__all__ = [
    "Application",
    "ControllerOptions",
    "Deployment",
    "HTTPOptions",
    "RunTarget",
    "TracingConfig",
    "batch",
    "delete",
    "deployment",
    "get_app_handle",
    "get_deployment_actor",
    "get_deployment_actor_context",
    "get_deployment_handle",
    "get_multiplexed_model_id",
    "get_replica_context",
    "get_trace_context",
    "ingress",
    "multiplexed",
    "run",
    "run_many",
    "shutdown",
    "shutdown_async",
    "start",
    "status",
]


starlette_modules.offer()


def __getattr__(name: str) -> Any:
    if name in ("ControllerOptions", "HTTPOptions"):
        return getattr(config, name)
    if name == "TracingConfig":
        return schema.TracingConfig
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
