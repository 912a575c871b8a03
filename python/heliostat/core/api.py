"""The functions of the public API: ``init``, ``remote``, ``get`` and their sisters.

``get``, ``put``, ``wait`` and ``cancel`` are the runtime's own and have no Python in them; ``init``
has a module of its own because it comes first and is to be quick.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from heliostat._heliostat import cancel, get, put, wait
from heliostat.core.calls.actor import ActorClass, get_actor, kill, method
from heliostat.core.calls.options import remote_usage
from heliostat.core.calls.remote_function import RemoteFunction
from heliostat.core.calls.unread import explain
from heliostat.core.driver.init import init, shutdown
from heliostat.core.platform.logging_config import LoggingConfig
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


explain()


def remote(*args: Any, **kwargs: Any) -> Any:
    """Make a function a remote function, or a class an actor class.

    Write ``@ray.remote``, ``@ray.remote(num_cpus=2)`` or ``ray.remote(function)``. ``f.remote(...)`` then
    runs the function in a worker and returns an ``ObjectRef`` at once; ``A.remote(...)`` makes an actor in a
    process of its own and returns its handle. ``.options(...)`` changes options for one call.

    Options of functions and classes: ``num_cpus`` (a number, fractions to 0.0001; functions: 1; actors: 1 to
    be placed, 0 while they live, unless it is given), ``num_gpus`` (0), ``resources`` (amounts by name),
    ``memory`` (bytes, 0), ``accelerator_type`` (a name from ``ray.util.accelerators``), ``label_selector``
    (labels that the node must have), ``fallback_strategy`` (selectors to try after that one), ``name``,
    ``runtime_env`` (a dictionary; default: the job's), ``scheduling_strategy`` (``"DEFAULT"``, ``"SPREAD"``
    or an object of ``ray.util.scheduling_strategies``), ``enable_task_events`` (True).

    Options of functions: ``num_returns`` (1; 0: nothing; ``"streaming"``: the default of generators),
    ``max_retries`` (3: how often it runs again when its process or node dies; -1: without end),
    ``retry_exceptions`` (False; True, or a list of exceptions of the function that are tried again, too),
    ``max_calls`` (0, with GPUs 1: the worker ends after so many calls; 0: it stays).

    Options of classes: ``max_restarts`` (0; -1: without end), ``max_task_retries`` (0; -1: without end),
    ``max_concurrency`` (1; 1000 with ``async`` methods), ``concurrency_groups`` (numbers of calls by name),
    ``max_pending_calls`` (-1: no bound), ``lifetime`` (``"detached"``: it outlives the job), ``namespace``
    (the job's), ``get_if_exists`` (False; True: the actor of that name, if there is one).

    Args:
        *args: The function or class, when there are no parentheses.
        **kwargs: The options, as above.

    Returns:
        A ``RemoteFunction`` or an ``ActorClass``; with options, a decorator that makes one.

    Raises:
        ValueError: An option is unknown, or has a value that it cannot have; the function is ``async
            def``.
        TypeError: An option has a value of another type, or the target is neither function nor class.
        AssertionError: ``@ray.remote()`` has neither target nor option, or a positional option.

    Examples:
        >>> import ray
        >>> @ray.remote
        ... def double(x):
        ...     return 2 * x
        >>> ray.get(double.remote(21))
        42
        >>> @ray.remote(max_restarts=1)
        ... class Counter:
        ...     def __init__(self):
        ...         self.n = 0
        ...     def add(self, k):
        ...         self.n += k
        ...         return self.n
        >>> counter = Counter.remote()
        >>> ray.get([counter.add.remote(1), counter.add.remote(2)])
        [1, 3]
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
