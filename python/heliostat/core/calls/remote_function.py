"""``@remote`` functions."""

from __future__ import annotations

import functools
import inspect
import logging
import warnings
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Generic, NoReturn, ParamSpec, TypeVar

from heliostat import _heliostat
from heliostat.core.calls import scheduling, signature
from heliostat.core.calls.options import OptionsCache, check_gpus, check_task_options
from heliostat.core.platform import settings
from heliostat.core.platform.annotations import RayDeprecationWarning
from heliostat.core.serialize import pickle_function

if TYPE_CHECKING:
    from heliostat.core.calls.graph import FunctionNode
    from heliostat.core.native_types import TaskPlan

P = ParamSpec("P")
R = TypeVar("R")

MIB = 1 << 20
FUNCTION_WARN_BYTES = 10**7
FUNCTION_MAX_BYTES = settings.whole("FUNCTION_SIZE_ERROR_THRESHOLD")

logger = logging.getLogger("heliostat")


class RemoteFunction(Generic[P, R]):
    """A function whose calls run elsewhere, made by ``@ray.remote``: ``f.remote(...)``.

    Raises:
        ValueError: The function is ``async def``.

    Examples:
        >>> import ray
        >>> @ray.remote
        ... def double(x):
        ...     return 2 * x
        >>> isinstance(double, ray.remote_function.RemoteFunction)
        True
        >>> ray.get(double.options(num_cpus=0.5, name="small").remote(21))
        42
    """

    remote: Callable[..., Any]
    """Submit a call; returns an ``ObjectRef`` (or as many as ``num_returns`` says) at once."""

    __signature__ = signature.ANY

    def __init__(self, function: Callable[P, R], options: Mapping[str, Any]) -> None:
        if inspect.iscoroutinefunction(function):
            raise ValueError(
                "'async def' should not be used for remote tasks. You can wrap the async function "
                "with `asyncio.run(f())`, or make it a method of an actor."
            )
        check_task_options(options, in_options=False)
        self._bind(function, dict(options), _Pickled(function))

    def _bind(self, function: Callable[P, R], options: dict[str, Any], pickled: _Pickled) -> None:
        self._function = function
        self._function_name = function_name(function)
        self._default_options = options
        self._pickled = pickled
        self._optioned: OptionsCache[FunctionWithOptions[P, R]] = OptionsCache()
        functools.update_wrapper(self, function)
        self._settled = _heliostat.TaskOptions(options, pickled.is_generator)
        self.remote = _caller(pickled, self._settled).remote

    def _remote(
        self, args: Any = (), kwargs: Mapping[str, Any] | None = None, **task_options: Any
    ) -> Any:
        """The older way to give options: ``f.options(...).remote(...)`` in one."""
        return self.options(**task_options).remote(*(args or ()), **(kwargs or {}))

    def options(self, **task_options: Any) -> FunctionWithOptions[P, R]:
        """The same function with other options.

        Args:
            **task_options: Those of ``ray.remote`` for functions, without ``max_calls``.

        Returns:
            What has ``remote(...)`` and ``bind(...)``, with these options.

        Raises:
            ValueError: An option is unknown, or has a value that it cannot have.
            TypeError: An option has a value of another type.

        Examples:
            >>> import ray
            >>> @ray.remote
            ... def where():
            ...     return ray.get_runtime_context().get_assigned_resources()["CPU"]
            >>> ray.get(where.options(num_cpus=0.5).remote())
            0.5
        """

        def make() -> FunctionWithOptions[P, R]:
            check_task_options(task_options, in_options=True)
            per_yield = self._settled["_num_objects_per_yield"]
            if task_options.get("_num_objects_per_yield", per_yield) != per_yield:
                raise ValueError(
                    "_num_objects_per_yield is a property of the function: give it to @ray.remote, not "
                    "to `.options()`."
                )
            return FunctionWithOptions(self._pickled, self._default_options, task_options)

        return self._optioned.find(task_options, make)

    def bind(self, *args: Any, **kwargs: Any) -> FunctionNode:
        """A node of a task graph.

        Args:
            *args: Positional arguments of the call, which may be nodes.
            **kwargs: Keyword arguments of the call, likewise.

        Returns:
            A node; ``execute()`` makes the call.
        """
        from heliostat.core.calls.graph import FunctionNode

        return FunctionNode(self.remote, args, kwargs, self._default_options)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> NoReturn:
        name = self._function_name
        raise TypeError(
            "Remote functions cannot be called directly. "
            f"Instead of running '{name}()', try '{name}.remote()'."
        )

    def __getstate__(self) -> dict[str, Any]:
        return {"function": self._function, "options": self._default_options}

    def __setstate__(self, state: dict[str, Any]) -> None:
        function = state["function"]
        self._bind(function, state["options"], _Pickled(function))


class FunctionWithOptions(Generic[P, R]):
    """The result of ``f.options(...)``: only good for ``.remote`` and ``.bind``."""

    __wrapped__: Callable[P, R]

    def __init__(
        self, pickled: _Pickled, defaults: Mapping[str, Any], task_options: Mapping[str, Any]
    ) -> None:
        functools.update_wrapper(self, pickled.function)  # type: ignore[arg-type] # cannot be called
        self._defaults = defaults
        self._task_options = dict(task_options)
        given = {**defaults, **task_options}
        self._settled = _heliostat.TaskOptions(given, pickled.is_generator)
        self.remote: Callable[..., Any] = _caller(pickled, self._settled).remote

    def bind(self, *args: Any, **kwargs: Any) -> FunctionNode:
        """A node of a task graph."""
        from heliostat.core.calls.graph import FunctionNode

        return FunctionNode(self.remote, args, kwargs, self._task_options)

    def __reduce__(self) -> tuple[Any, ...]:
        return _arrived, (self.__wrapped__, self._defaults, self._task_options)


def _arrived(
    function: Callable[P, R], defaults: Mapping[str, Any], task_options: Mapping[str, Any]
) -> FunctionWithOptions[P, R]:
    return FunctionWithOptions(_Pickled(function), defaults, task_options)


class _Pickled:
    """A function and what is derived from it once, whatever the options."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.name = getattr(function, "__name__", type(function).__name__)
        self.is_generator = inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(
            function
        )
        parameters = signature.parameters(function)
        self.check = signature.checker(parameters, self.name)
        self.bounds = signature.bounds(parameters)

    @functools.cached_property
    def data(self) -> _heliostat.Definition:
        """The pickled function, made at the first call."""
        return checked_pickle(self.function, "remote function", function_name(self.function))


def checked_pickle(definition: Any, kind: str, name: str) -> _heliostat.Definition:
    """A function or class, pickled; ``ValueError`` when it drags too much along."""
    data = pickle_function(definition)
    if len(data) > FUNCTION_MAX_BYTES:
        raise ValueError(
            f"The {kind} {name} is too large ({len(data) // MIB} MiB > "
            f"FUNCTION_SIZE_ERROR_THRESHOLD={FUNCTION_MAX_BYTES // MIB} MiB). Check that its "
            "definition is not implicitly capturing a large array or other object in scope. "
            "Tip: use ray.put() to put large objects in the object store."
        )
    if len(data) > FUNCTION_WARN_BYTES:
        logger.warning(
            "The %s %s is very large (%d MiB). Check that its definition is not implicitly "
            "capturing a large array or other object in scope. Tip: use ray.put() to put large "
            "objects in the object store.",
            kind,
            name,
            len(data) // MIB,
        )
    return _heliostat.Definition(data)


def function_name(function: Callable[..., Any]) -> str:
    """``module.name``, for people."""
    name = getattr(function, "__name__", type(function).__name__)
    return f"{getattr(function, '__module__', '?')}.{name}"


def module_name(definition: Callable[..., Any]) -> str:
    """The module of a function or class; for what a script defines, the name of its file."""
    module: str = getattr(definition, "__module__", None) or "?"
    if module != "__main__":
        return module
    # In a worker ``__main__`` is another file: the code knows where it was written.
    parts: list[Any] = [definition]
    if isinstance(definition, type):
        parts = [part for base in definition.__mro__ for part in vars(base).values()]
    for part in parts:
        code = getattr(inspect.unwrap(part) if callable(part) else part, "__code__", None)
        if getattr(part, "__module__", None) == module and code is not None:
            return inspect.getmodulename(code.co_filename) or module
    return module


def warn_of_dynamic() -> None:
    """Warn of ``num_returns="dynamic"``, for functions and methods alike."""
    warnings.warn(
        "num_returns='dynamic' is deprecated and will be removed. "
        "Use num_returns='streaming' instead.",
        RayDeprecationWarning,
        stacklevel=5,
    )


def check_returns(number: int | str, is_generator: bool, of: str) -> None:
    """Refuse the words for generators where there is none; warn of the deprecated one."""
    if not isinstance(number, str):
        return
    if number == "dynamic":
        warn_of_dynamic()
    if not is_generator:
        raise ValueError(
            f"num_returns='{number}' can only be used with generator {of}s ({of}s that use "
            f"'yield'). The decorated {of} is not a generator {of}."
        )


def _caller(pickled: _Pickled, options: _heliostat.TaskOptions) -> _heliostat.TaskCaller:
    """Everything that can be known before a session is, checked and settled now."""
    needed = options.resources
    check_gpus(needed)
    needs = {"run": needed}
    placement = scheduling.placement_of(options, needs, pickled.name)
    check_returns(options["num_returns"], pickled.is_generator, "function")
    own_env = options["runtime_env"]

    def prepare() -> TaskPlan:
        if placement.may_be_captured:
            scheduling.check_captured(needs, pickled.name)
        return {
            "function": pickled.data,
            "name": pickled.name,
            "function_name": f"{module_name(pickled.function)}.{pickled.name}",
            "runtime_env": inherited_env(own_env),
        }

    return _heliostat.TaskCaller(options, placement, prepare, pickled.check, *pickled.bounds)


def inherited_env(own: Mapping[str, Any] | None) -> str:
    """An environment within the one that the caller runs in, as JSON."""
    parents: str = _heliostat.current().runtime_env
    if not own:
        return parents
    from heliostat.core.runtime_env import document

    return document.inherit(parents, own)
