"""Heliostat: Ray's programming model and API on a core written in Rust.

``import heliostat as ray``. Names are loaded when they are first used: this module is one table.
"""

from __future__ import annotations

import sys

from heliostat.core.driver import installed_ray
from heliostat.core.platform import optuna_urls

# A worker does what its driver does; that one has said it.
if sys.argv[:1] != ["heliostat-worker"]:
    installed_ray.warn()

optuna_urls.listen()

# `typing` takes longer to load than everything here; type checkers know the name.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from heliostat import _heliostat, actor, cloudpickle, cluster_utils, exceptions, util
    from heliostat._heliostat import (
        ActorClassID,
        ActorID,
        ClusterID,
        FunctionID,
        JobID,
        NodeID,
        ObjectRef,
        ObjectRefGenerator,
        PlacementGroupID,
        TaskID,
        UniqueID,
        WorkerID,
        __version__,
    )
    from heliostat._heliostat import ObjectRef as ObjectID
    from heliostat.core.api import (
        LoggingConfig,
        cancel,
        get,
        get_actor,
        init,
        is_initialized,
        kill,
        method,
        put,
        remote,
        shutdown,
        wait,
    )
    from heliostat.core.calls.cross_language import (
        RESTORE_WORKER_MODE,
        SCRIPT_MODE,
        SPILL_WORKER_MODE,
        WORKER_MODE,
        Language,
        cpp_function,
        java_actor_class,
        java_function,
    )
    from heliostat.core.calls.dynamic_returns import DynamicObjectRefGenerator
    from heliostat.core.driver.remote import ClientBuilder, client
    from heliostat.core.platform.accelerators import get_gpu_ids
    from heliostat.core.platform.version import COMMIT as __commit__
    from heliostat.core.runtime_context import get_runtime_context
    from heliostat.core.session import logger
    from heliostat.core.state import available_resources, cluster_resources, nodes, timeline

# name: (module, name there)
_EXPORTS = {
    name: (module, name)
    for module, names in {
        "heliostat._heliostat": (
            "ActorClassID ActorID ClusterID FunctionID JobID NodeID ObjectRef "
            "ObjectRefGenerator PlacementGroupID TaskID UniqueID WorkerID __version__"
        ),
        "heliostat.core.driver.remote": "ClientBuilder client",
        "heliostat.core.api": (
            "LoggingConfig cancel get get_actor is_initialized kill method put remote wait"
        ),
        "heliostat.core.calls.dynamic_returns": "DynamicObjectRefGenerator",
        "heliostat.core.platform.accelerators": "get_gpu_ids",
        "heliostat.core.driver.init": "init shutdown",
        "heliostat.core.calls.cross_language": (
            "RESTORE_WORKER_MODE SCRIPT_MODE SPILL_WORKER_MODE WORKER_MODE Language "
            "cpp_function java_actor_class java_function"
        ),
        "heliostat.core.runtime_context": "get_runtime_context",
        "heliostat.core.state": "available_resources cluster_resources nodes timeline",
    }.items()
    for name in names.split()
}
_EXPORTS["ObjectID"] = ("heliostat._heliostat", "ObjectRef")
_EXPORTS["logger"] = ("heliostat.core.session", "logger")
_EXPORTS["__commit__"] = ("heliostat.core.platform.version", "COMMIT")

# Loads the rest itself, while it waits.
_QUICK = ("init",)

# Modules that are there without being imported; the others want `import heliostat.x`.
_MODULES = (
    "_private",
    "actor",
    "cloudpickle",
    "cluster_utils",
    "cross_language",
    "data",
    "exceptions",
    "experimental",
    "job_config",
    "remote_function",
    "runtime_context",
    "runtime_env",
    "types",
    "util",
)

__all__ = [
    "ActorClassID",
    "ActorID",
    "ClientBuilder",
    "ClusterID",
    "DynamicObjectRefGenerator",
    "FunctionID",
    "JobID",
    "Language",
    "LoggingConfig",
    "NodeID",
    "ObjectID",
    "ObjectRef",
    "ObjectRefGenerator",
    "PlacementGroupID",
    "RESTORE_WORKER_MODE",
    "SCRIPT_MODE",
    "SPILL_WORKER_MODE",
    "TaskID",
    "UniqueID",
    "WORKER_MODE",
    "WorkerID",
    "actor",
    "available_resources",
    "cancel",
    "client",
    "cluster_resources",
    "cpp_function",
    "exceptions",
    "get",
    "get_actor",
    "get_gpu_ids",
    "get_runtime_context",
    "init",
    "is_initialized",
    "java_actor_class",
    "java_function",
    "kill",
    "method",
    "nodes",
    "put",
    "remote",
    "shutdown",
    "timeline",
    "util",
    "wait",
]


def __getattr__(name: str) -> Any:
    import importlib

    if name in _EXPORTS:
        module, attribute = _EXPORTS[name]
        if name not in _QUICK:
            # The classes say that they live there, and picklers look only among loaded modules.
            importlib.import_module("heliostat.exceptions")
        value = getattr(importlib.import_module(module), attribute)
        globals()[name] = value
        return value
    if name in _MODULES:
        try:
            return importlib.import_module(f"heliostat.{name}")
        except ModuleNotFoundError as error:
            if error.name != f"heliostat.{name}":
                raise
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_EXPORTS, *_MODULES})
