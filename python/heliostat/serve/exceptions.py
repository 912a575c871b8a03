"""Errors of Serve."""

from __future__ import annotations

from typing import Any

from heliostat.exceptions import TaskCancelledError

__all__ = [
    "BackPressureError",
    "DeploymentUnavailableError",
    "RayServeException",
    "ReplicaUnavailableError",
    "RequestCancelledError",
    "gRPCStatusError",
]


class RayServeException(Exception):
    """The base of Serve's errors.

    Examples:
        >>> from ray import serve
        >>> from ray.serve.exceptions import RayServeException
        >>> try:
        ...     serve.get_app_handle("none of this name")
        ... except RayServeException as error:
        ...     print(error)
        Application 'none of this name' does not exist.
    """


class BackPressureError(RayServeException):
    """The deployment's queue is full: ``max_queued_requests`` wait.

    Examples:
        >>> from ray import serve
        >>> from ray.serve.exceptions import BackPressureError
        >>> error = BackPressureError(num_queued_requests=10, max_queued_requests=10)
        >>> isinstance(error, serve.exceptions.RayServeException)
        True

        ``handle.remote(...).result()`` raises it: try again later.
    """

    def __init__(
        self,
        num_queued_requests: int,
        max_queued_requests: int,
        status_code: int = 503,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(num_queued_requests, max_queued_requests, status_code, retry_after_s)
        self.status_code = status_code
        self.retry_after_s = retry_after_s
        self.message = (
            "Request dropped due to backpressure "
            f"(num_queued_requests={num_queued_requests}, max_queued_requests={max_queued_requests})."
        )

    def __str__(self) -> str:
        return self.message


class RequestCancelledError(RayServeException, TaskCancelledError):
    """The request was cancelled.

    Examples:
        >>> import asyncio
        >>> from ray import serve
        >>> from ray.serve.exceptions import RequestCancelledError
        >>> @serve.deployment
        ... async def slow(_):
        ...     await asyncio.sleep(600)
        >>> response = serve.run(slow.bind(), name="slow", route_prefix=None).remote(None)
        >>> response.cancel()
        >>> try:
        ...     response.result()
        ... except RequestCancelledError:
        ...     print("it was cancelled")
        it was cancelled
        >>> serve.delete("slow")
    """

    def __init__(self, request_id: str | None = None) -> None:
        Exception.__init__(self, request_id)
        self.request_id = request_id

    def __str__(self) -> str:
        named = f"Request {self.request_id}" if self.request_id else "Request"
        return f"{named} was cancelled."


class gRPCStatusError(RayServeException):
    """An exception whose call of gRPC ends with a status of its own.

    Args:
        original_exception: What was raised.
        code: A ``grpc.StatusCode``; default `INTERNAL`.
        details: The status's text; default what the exception says.

    Examples:
        >>> import grpc
        >>> from ray.serve.exceptions import gRPCStatusError
        >>> def find(books, title):  # in a method of a deployment that answers gRPC
        ...     try:
        ...         return books[title]
        ...     except KeyError as error:
        ...         raise gRPCStatusError(error, grpc.StatusCode.NOT_FOUND, f"no {title!r}") from error
        >>> try:
        ...     find({}, "Emma")
        ... except gRPCStatusError as error:
        ...     print(error.grpc_code.name, error.grpc_details)
        NOT_FOUND no 'Emma'
    """

    def __init__(
        self,
        original_exception: BaseException,
        code: Any = None,
        details: str | None = None,
    ) -> None:
        super().__init__(original_exception, code, details)
        self.original_exception = original_exception
        self.grpc_code = code
        self.grpc_details = details

    def __str__(self) -> str:
        return str(self.original_exception)


class DeploymentUnavailableError(RayServeException):
    """The deployment failed to deploy, or is gone.

    Examples:
        >>> from ray import serve
        >>> from ray.serve.exceptions import DeploymentUnavailableError
        >>> def ask(handle, question):
        ...     try:
        ...         return handle.remote(question).result()
        ...     except DeploymentUnavailableError as error:
        ...         print(error, serve.status().applications)  # says why it failed to deploy
        >>> str(DeploymentUnavailableError("Deployment 'a'"))
        "Deployment 'a' is unavailable."
    """

    def __init__(self, deployment_id: object) -> None:
        super().__init__(deployment_id)
        self.message = f"{deployment_id} is unavailable."

    def __str__(self) -> str:
        return self.message


class ReplicaUnavailableError(RayServeException):
    """The replica that was chosen is ending.

    Examples:
        >>> from ray.serve.exceptions import ReplicaUnavailableError
        >>> async def ask(handle, question):
        ...     while True:
        ...         async with handle.choose_replica(question) as selection:
        ...             try:
        ...                 return await handle.dispatch(selection, question)
        ...             except ReplicaUnavailableError:
        ...                 pass  # it was ending: choose another
    """

    def __init__(self, replica_id: str) -> None:
        super().__init__(replica_id)
        self.message = f"Replica {replica_id} is no longer available."

    def __str__(self) -> str:
        return self.message
