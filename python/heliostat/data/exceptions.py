"""Errors of the data library, and what an error of the user's code looks like to the caller."""

from __future__ import annotations

import functools
import os
from types import TracebackType

from heliostat.exceptions import UserCodeException

__all__ = [
    "ExecutionTimeoutError",
    "RayDataUserCodeException",
    "SystemException",
    "UserCodeException",
    "user_error",
]

RayDataUserCodeException = UserCodeException

_HERE = os.path.dirname(__file__) + os.sep


class SystemException(Exception):
    """The library itself failed; what follows is a fault of ours.

    Examples:
        >>> import ray
        >>> from ray.data.exceptions import SystemException, UserCodeException
        >>> try:
        ...     rows = ray.data.range(2).map(lambda row: {"x": row["id"] + 1}).take_all()
        ... except UserCodeException:
        ...     raise  # the function has failed
        ... except SystemException:
        ...     raise  # the library has
        >>> rows
        [{'x': 1}, {'x': 2}]
    """


class ExecutionTimeoutError(Exception):
    """An execution has not moved for ``DataContext.execution_no_progress_timeout_s``.

    Examples:
        >>> import ray
        >>> from ray.data.exceptions import ExecutionTimeoutError
        >>> context = ray.data.DataContext.get_current().copy()
        >>> context.execution_no_progress_timeout_s = 600
        >>> with ray.data.DataContext.current(context):
        ...     try:
        ...         ray.data.range(4).count()
        ...     except ExecutionTimeoutError:
        ...         print("nothing has moved for ten minutes")
        4
    """


@functools.lru_cache(maxsize=256)
def _kind(cause: type[Exception]) -> type[UserCodeException]:
    if issubclass(cause, UserCodeException):
        return cause
    try:
        return type(
            "UserCodeException",
            (UserCodeException, cause),
            {"__module__": __name__, "__str__": _text, "__reduce__": _reduce},
        )
    except TypeError:  # the two cannot have a common child
        return UserCodeException


def _text(self: Exception) -> str:
    return str(self.__dict__.get("_said", ""))


def _reduce(self: Exception) -> tuple[object, ...]:
    return _again, (self.__dict__.get("_cause"), self.__dict__.get("_said"))


def _again(cause: Exception, said: str) -> UserCodeException:
    kind = _kind(type(cause))  # type: ignore[arg-type] # classes can be hashed
    if kind is UserCodeException:
        return UserCodeException(said)
    made: UserCodeException = kind.__new__(kind, *cause.args)
    Exception.__init__(made, *cause.args)
    made.__dict__.update(cause.__dict__)
    made.__dict__.update(_cause=cause, _said=said)
    return made


def without_ours(frames: TracebackType | None) -> TracebackType | None:
    """A traceback from the first frame on that is not this library's; None: all are."""
    while frames is not None and frames.tb_frame.f_code.co_filename.startswith(_HERE):
        frames = frames.tb_next
    return frames


def user_error(
    error: Exception, name: str, place: str = "a block", hint: str = ""
) -> UserCodeException:
    """Return what the user's code raised, as an exception that is a ``UserCodeException`` and of its class.

    Its text is one sentence; the frames of the user's code come with its cause.

    Args:
        error: What was raised.
        name: The function's name.
        place: Where it was at. Default ``"a block"``.
        hint: What more to say. Default: nothing.

    Returns:
        The exception, to be raised.

    Examples:
        >>> from ray.data.exceptions import UserCodeException, user_error
        >>> error = user_error(KeyError("x"), "add_x", place="a row")
        >>> isinstance(error, UserCodeException), isinstance(error, KeyError)
        (True, True)
    """
    if isinstance(error, UserCodeException):
        return error
    error.__traceback__ = without_ours(error.__traceback__)
    said = f"{name} failed on {place}: {type(error).__name__}: {error}{hint}"
    try:
        return _again(error, said)
    except Exception:
        return UserCodeException(said)
