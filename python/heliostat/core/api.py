"""The functions of the public API: ``init``, ``remote``, ``get`` and their sisters.

``get``, ``put``, ``wait`` and ``cancel`` are the runtime's own and have no Python in them; ``init``
has a module of its own because it comes first and is to be quick.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from heliostat._heliostat import cancel, get, put, wait
from heliostat.core.actor import ActorClass, get_actor, kill, method
from heliostat.core.init import init, shutdown
from heliostat.core.logging_config import LoggingConfig
from heliostat.core.options import remote_usage
from heliostat.core.remote_function import RemoteFunction
from heliostat.core.session import is_initialized

__all__ = [
    "LoggingConfig",
    "cancel",
    "get",
    "get_actor",
    "init",
    "is_initialized",
    "kill",
    "method",
    "put",
    "remote",
    "shutdown",
    "wait",
]


def remote(*args: Any, **kwargs: Any) -> Any:
    """Make a function a remote function, or a class an actor class.

    Write ``@remote``, ``@remote(num_cpus=2)`` or ``remote(function)``. Functions take ``num_cpus``
    (default 1), ``num_gpus``, ``resources``, ``memory`` (bytes), ``num_returns`` (1), ``max_retries`` (3),
    ``retry_exceptions``, ``max_calls``, ``runtime_env``, ``scheduling_strategy``, ``label_selector`` and
    ``name``. Classes take most of these, and ``max_restarts`` (0), ``max_task_retries`` (0),
    ``max_concurrency`` (1; 1000 with ``async`` methods), ``concurrency_groups``, ``lifetime``,
    ``namespace`` and ``get_if_exists``.

    Returns:
        A ``RemoteFunction`` or an ``ActorClass``; each has ``remote(...)`` and ``options(...)``.

    Raises:
        ValueError: An option is unknown, or has a value that it cannot have.
        TypeError: The value of an option has another type, or it is applied to something else.
    """
    if len(args) == 1 and not kwargs and (callable(args[0]) or hasattr(args[0], "__dict__")):
        return _make_remote(args[0], {})
    if args or not kwargs:
        raise AssertionError(remote_usage())
    return lambda target: _make_remote(target, kwargs)


def _make_remote(target: Any, options: Mapping[str, Any]) -> Any:
    if inspect.isfunction(target) or _is_compiled(target):
        return RemoteFunction(target, options)
    if inspect.isclass(target):
        return ActorClass(target, options)
    raise TypeError("The @ray.remote decorator must be applied to either a function or a class.")


def _is_compiled(target: Any) -> bool:
    """Whether it is a function of an extension module, such as Cython makes."""
    return type(target).__name__ in ("cython_function_or_method", "builtin_function_or_method")
