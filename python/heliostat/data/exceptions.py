"""Errors of the data library, and what an error of the user's code looks like to the caller."""

from __future__ import annotations

import functools
import traceback

from heliostat.exceptions import UserCodeException

__all__ = [
    "ExecutionTimeoutError",
    "RayDataUserCodeException",
    "SystemException",
    "UserCodeException",
    "user_error",
]

RayDataUserCodeException = UserCodeException


class SystemException(Exception):
    """The library itself failed; what follows is a fault of ours."""


class ExecutionTimeoutError(Exception):
    """Nothing has moved in an execution for ``DataContext.execution_no_progress_timeout_s``."""


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


def user_error(error: Exception, name: str) -> UserCodeException:
    """What the user's code raised, as an exception that is a ``UserCodeException`` and of its class."""
    if isinstance(error, UserCodeException):
        return error
    own = traceback.extract_tb(error.__traceback__)[1:]  # the first frame is ours
    where = "".join(traceback.format_list(own)) if own else ""
    said = f"{name} failed on a block: {type(error).__name__}: {error}\n{where}".rstrip()
    try:
        return _again(error, said)
    except Exception:
        return UserCodeException(said)
