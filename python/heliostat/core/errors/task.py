"""The exception of a call, on its way from the worker to the caller.

A worker wraps the exception in a :class:`RayTaskError` (:func:`make_task_error`,
:func:`make_dependency_error`); the caller raises :meth:`RayTaskError.as_instanceof_cause`, which is
an instance of both ``RayTaskError`` and the exception's own class.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import traceback
import types
from dataclasses import dataclass
from typing import Any

from heliostat.core.errors import PUBLIC_MODULE, RayError

_CORE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_HEADER = "Traceback (most recent call last):"
_DEPENDENCY = "  At least one of the input arguments for this task could not be computed:"

logger = logging.getLogger("heliostat")


class RayTaskError(RayError):
    """User code raised in a task, an actor's method, or an actor's constructor.

    ``str`` of it is the remote traceback; ``cause`` is the exception itself.

    Examples:
        >>> import ray
        >>> @ray.remote
        ... def fail():
        ...     raise ValueError("no such file")
        >>> try:
        ...     ray.get(fail.remote())
        ... except ray.exceptions.RayTaskError as error:
        ...     print(error.cause)
        no such file
    """

    def __init__(
        self,
        function_name: str,
        traceback_str: str,
        cause: BaseException | None,
        proctitle: str | None = None,
        pid: int | None = None,
        ip: str | None = None,
        actor_repr: str | None = None,
        actor_id: str | None = None,
    ) -> None:
        super().__init__(
            function_name, traceback_str, cause, proctitle, pid, ip, actor_repr, actor_id
        )
        self.function_name = function_name
        self.traceback_str = traceback_str
        self.cause = cause
        self.proctitle = proctitle
        self.pid = pid
        self.ip = ip
        self.actor_repr = actor_repr
        self._actor_id = actor_id

    def __str__(self) -> str:
        return self.traceback_str.rstrip("\n")

    def as_instanceof_cause(self) -> RayTaskError:
        """This error as an instance of its cause's class as well; itself where that cannot be."""
        cause = self.cause
        if cause is None or type(cause) is RayError or isinstance(self, type(cause)):
            return self
        try:
            return _dual(self, cause)
        except Exception as error:
            logger.warning(
                "An exception of type %s cannot be given to `except %s`: %s",
                type(cause),
                type(cause).__name__,
                error,
            )
            return self

    def make_dual_exception_instance(self) -> RayTaskError:
        """Like :meth:`as_instanceof_cause`, but raises where that cannot be.

        Raises:
            TypeError: There is no cause, or no class can be derived from the cause's.
        """
        if self.cause is None:
            raise TypeError("the error has no cause")
        return _dual(self, self.cause)


RayTaskError.__module__ = PUBLIC_MODULE


class _FallThrough:
    """The part of a dual class that comes before its two parents."""

    __dict__: dict[str, Any]

    def __getattr__(self, name: str) -> Any:
        if name == "cause" or (name.startswith("__") and name.endswith("__")):
            raise AttributeError(name)
        return getattr(self.__dict__.get("cause"), name)

    def __str__(self) -> str:
        return RayTaskError.__str__(self)  # type: ignore[arg-type] # a dual class has both

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.__dict__.get('cause')!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, tuple(self.__dict__["_fields"])


def _again(*fields: Any) -> RayTaskError:
    return RayTaskError(*fields).as_instanceof_cause()


@functools.lru_cache(maxsize=256)
def _dual_class(cause_class: type[BaseException]) -> type[RayTaskError]:
    name = f"RayTaskError({cause_class.__name__})"
    body = {
        "__module__": PUBLIC_MODULE,
        "__qualname__": name,
        "__doc__": cause_class.__doc__,
        "__getattr__": _FallThrough.__getattr__,
        "__str__": _FallThrough.__str__,
        "__repr__": _FallThrough.__repr__,
        "__reduce__": _FallThrough.__reduce__,
    }
    return type(name, (RayTaskError, cause_class), body)


@functools.lru_cache(maxsize=256)
def _slots(cause_class: type[BaseException]) -> tuple[str, ...]:
    kinds = (types.MemberDescriptorType, types.GetSetDescriptorType)
    return tuple(
        name
        for owner in cause_class.__mro__
        for name, kind in vars(owner).items()
        if isinstance(kind, kinds) and not name.startswith("__") and name != "args"
    )


def _dual(error: RayTaskError, cause: BaseException) -> RayTaskError:
    """Made without the constructor of the cause's class, which may want anything."""
    dual_class = _dual_class(type(cause))  # type: ignore[arg-type] # classes can be hashed
    built_in: Any = dual_class  # the one whose fields an instance has
    while built_in.__module__ != "builtins":
        built_in = built_in.__base__
    is_group = built_in.__name__.endswith("ExceptionGroup")
    arguments = (cause.message, cause.exceptions) if is_group else (cause,)  # type: ignore[attr-defined] # only groups have exceptions
    dual: RayTaskError = built_in.__new__(dual_class, *arguments)
    if isinstance(cause, RayError):
        dual.__dict__.update(cause.__dict__)
    dual.__dict__.update(error.__dict__)
    dual.__dict__["_fields"] = error.args
    if notes := getattr(cause, "__notes__", None):
        dual.__dict__["__notes__"] = list(notes)
    # Fields of built-in exceptions (`OSError.errno`) live in slots, where no fall-through reaches.
    for name in _slots(type(cause)):  # type: ignore[arg-type] # classes can be hashed
        with contextlib.suppress(Exception):
            setattr(dual, name, getattr(cause, name))
    if isinstance(cause, KeyboardInterrupt | SystemExit | GeneratorExit):
        raise TypeError("it would end the process that reads it")
    return dual


# --- in the worker ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class CallPlace:
    """The call that failed, and the process in which it ran.

    Attributes:
        function_name: The function or method.
        proctitle: ``ray::function`` or ``ray::Class.method``, without parentheses.
        pid: The process.
        ip: The address of its node.
        actor_id: The actor, as hexadecimal digits. Default: it is a task.
        actor_repr: How the actor shows itself. Default: it is a task.
    """

    function_name: str
    proctitle: str
    pid: int
    ip: str
    actor_id: str | None = None
    actor_repr: str | None = None

    def __str__(self) -> str:
        facts = [f"pid={self.pid}", f"ip={self.ip}"]
        if self.actor_id:
            facts.append(f"actor_id={self.actor_id}")
        if self.actor_repr:
            facts.append(f"repr={self.actor_repr}")
        return f"{self.proctitle}() ({', '.join(facts)})"

    def error(self, lines: list[str], cause: BaseException | None) -> RayTaskError:
        """Make the call's error of the lines that say what happened."""
        text = "\n".join([str(self), *lines])
        return RayTaskError(
            self.function_name,
            text,
            cause,
            self.proctitle,
            self.pid,
            self.ip,
            self.actor_repr,
            self.actor_id,
        )


def make_task_error(error: BaseException, place: CallPlace) -> RayTaskError:
    """Wrap what user code raised; call it where the exception was caught.

    Args:
        error: The exception.
        place: The call that raised it.

    Returns:
        The error.

    Examples:
        >>> import ray
        >>> @ray.remote
        ... def fail():
        ...     raise ValueError("no such file")
        >>> try:
        ...     ray.get(fail.remote())  # the worker has made it of the ValueError
        ... except ray.exceptions.RayTaskError as error:
        ...     print(repr(error.cause))
        ValueError('no such file')
    """
    lines = _remote_lines(error)
    if isinstance(error, RayTaskError) and error.cause is not None:
        cause: BaseException = error.cause  # raised again on its way through this task
    else:
        cause = _portable(error, "\n".join([str(place), *lines]))
    return place.error(lines, cause)


def make_dependency_error(error: BaseException, place: CallPlace) -> RayTaskError:
    """Make the error of a call that could not begin, because an argument holds an error.

    Args:
        error: The exception that the argument holds.
        place: The call.

    Returns:
        The error.

    Examples:
        >>> import ray
        >>> @ray.remote
        ... def fail():
        ...     raise ValueError("no such file")
        >>> @ray.remote
        ... def use(value):
        ...     return value
        >>> try:
        ...     ray.get(use.remote(fail.remote()))  # the argument holds an error: `use` never begins
        ... except ValueError as error:
        ...     print("no such file" in str(error))
        True
    """
    name = f"{PUBLIC_MODULE}.{'RayTaskError' if isinstance(error, RayTaskError) else type(error).__name__}"
    cause = error.cause if isinstance(error, RayTaskError) else error
    return place.error([_DEPENDENCY, f"{name}: {error}"], cause)


def _remote_lines(error: BaseException) -> list[str]:
    """The traceback without the frames that called the user's function."""
    formatted = traceback.TracebackException.from_exception(error)
    _hide(formatted, set())
    lines = "".join(formatted.format()).rstrip("\n").split("\n")
    chained = any(line.startswith(("During handling", "The above exception")) for line in lines)
    return lines if chained else [line for line in lines if line != _HEADER]


def _hide(formatted: traceback.TracebackException | None, seen: set[int]) -> None:
    if formatted is None or id(formatted) in seen:
        return
    seen.add(id(formatted))
    kept = [f for f in formatted.stack if not os.path.abspath(f.filename).startswith(_CORE)]
    formatted.stack[:] = kept
    _hide(formatted.__cause__, seen)
    _hide(formatted.__context__, seen)


def _portable(error: BaseException, text: str) -> BaseException:
    """The exception, or a stand-in where it does not survive the way."""
    import pickle

    from heliostat import cloudpickle

    try:
        pickle.loads(cloudpickle.dumps(error))
    except Exception as reason:
        kind = f"{type(error).__module__}.{type(error).__qualname__}"
        return RayError(
            f"Exception {kind} isn't serializable: {reason}\nOriginal exception details:\n{text}"
        )
    return error
