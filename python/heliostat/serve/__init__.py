"""Serve: classes and functions that answer over HTTP and through handles, in replicas.

Reading order: ``deployment`` (what is served), ``api`` (how it is started), ``controller`` (which replicas
there are), ``replica`` (where requests run), ``router`` and ``handle`` (calls from Python). The HTTP server
is the crate ``helio-ingress``.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any

from heliostat.serve import config, context, exceptions, handle, schema
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
from heliostat.serve.config import HTTPOptions
from heliostat.serve.context import get_replica_context
from heliostat.serve.deployment import Application, Deployment
from heliostat.serve.multiplex import get_multiplexed_model_id, multiplexed

__all__ = [
    "Application",
    "Deployment",
    "HTTPOptions",
    "RunTarget",
    "batch",
    "delete",
    "deployment",
    "get_app_handle",
    "get_deployment_handle",
    "get_multiplexed_model_id",
    "get_replica_context",
    "ingress",
    "multiplexed",
    "run",
    "run_many",
    "shutdown",
    "shutdown_async",
    "start",
    "status",
]


class _Package(ModuleType):
    # `deployment` is a function here and a module below. Importing the module by its other name,
    # `ray.serve.deployment`, would bind the module in place of the function.
    def __setattr__(self, name: str, value: object) -> None:
        if not (name == "deployment" and isinstance(value, ModuleType)):
            super().__setattr__(name, value)

    def __reduce__(self) -> tuple[Any, ...]:
        # Pickled by its name, as every module is.
        return importlib.import_module, (self.__name__,)


sys.modules[__name__].__class__ = _Package

# Ray's names that this release does not have.
_NOT_YET = (
    "ControllerOptions",
    "TracingConfig",
    "get_deployment_actor",
    "get_deployment_actor_context",
    "get_trace_context",
    "llm",
    "metrics",
)


def __getattr__(name: str) -> Any:
    if name in _NOT_YET:
        raise AttributeError(f"serve.{name} is not in this release of Heliostat.")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
