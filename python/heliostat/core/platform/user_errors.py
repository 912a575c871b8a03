"""The exceptions of users' code within the errors of their tasks."""

from __future__ import annotations

from heliostat.core.errors.task import RayTaskError


def user_error(error: BaseException) -> BaseException:
    """Return what the user's code raised, where it came through tasks: their text is a traceback."""
    while isinstance(error, RayTaskError) and error.cause is not None:
        error = error.cause
    return error
