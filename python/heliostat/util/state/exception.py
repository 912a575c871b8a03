"""The errors of the state API."""

from __future__ import annotations


class DataSourceUnavailable(Exception):
    """A part of the cluster did not answer.

    Examples:
        >>> from ray.util.state import list_tasks
        >>> from ray.util.state.exception import DataSourceUnavailable
        >>> def count():
        ...     try:
        ...         return len(list_tasks(raise_on_missing_output=False))
        ...     except DataSourceUnavailable as error:
        ...         raise SystemExit(f"a part of the cluster does not answer: {error}") from error
        >>> count() >= 0
        True
    """


class RayStateApiException(Exception):
    """The state of the cluster could not be had.

    Examples:
        >>> from ray.util.state import list_nodes
        >>> from ray.util.state.exception import RayStateApiException
        >>> def states():
        ...     try:
        ...         return [node.state for node in list_nodes()]
        ...     except RayStateApiException as error:
        ...         raise SystemExit(f"the cluster does not say: {error}") from error
        >>> states()
        ['ALIVE']
    """


class ServerUnavailable(RayStateApiException):
    """No cluster can be asked.

    Examples:
        >>> from ray.util.state.exception import RayStateApiException, ServerUnavailable
        >>> issubclass(ServerUnavailable, RayStateApiException)  # which catches it
        True
    """
