"""Handles: calls to deployments from Python."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import dataclasses
import functools
import sys
import time
from collections.abc import AsyncIterator, Generator, Iterator
from typing import Any, cast

import heliostat as ray
from heliostat.core.platform import serving
from heliostat.exceptions import GetTimeoutError, TaskCancelledError
from heliostat.serve import tracing
from heliostat.serve.context import RequestContext, new_request_id, request_context
from heliostat.serve.exceptions import RequestCancelledError
from heliostat.serve.response import (
    Response,
    collected,
    deadline,
    forbid_loop,
    is_done,
    left,
    settled,
    settled_async,
    waited,
)
from heliostat.serve.response_arguments import after, submit_after
from heliostat.serve.router import Call, Reservation, Router, is_known, router_of
from heliostat.serve.specs import DeploymentID

__all__ = [
    "DeploymentBroadcastResponse",
    "DeploymentHandle",
    "DeploymentResponse",
    "DeploymentResponseGenerator",
    "ReplicaSelection",
]

UNSET: Any = cast(Any, object())
_TRACES = "opentelemetry.trace"  # imported where there may be spans
_context_of = functools.partial(tuple.__new__, RequestContext)
_SERIALIZATIONS = ("cloudpickle", "pickle", "msgpack", "orjson")


class DeploymentResponse(Response):
    """The answer of a call: ``await`` it, call ``result()``, or pass it to another call.

    Examples:
        >>> from ray import serve
        >>> @serve.deployment
        ... def double(x):
        ...     return 2 * x
        >>> handle = serve.run(double.bind(), name="double", route_prefix=None)
        >>> response = handle.remote(3)
        >>> handle.remote(response).result(timeout_s=60)  # the answer is an argument
        12
        >>> serve.delete("double")
    """

    def result(self, *, timeout_s: float | None = None, _skip_asyncio_check: bool = False) -> Any:
        """Wait for the answer.

        Args:
            timeout_s: Seconds to wait. Default: any time.

        Returns:
            The answer. What the deployment raised is raised here.

        Raises:
            TimeoutError: It was not there in time.
            RequestCancelledError: The call was cancelled.
            BackPressureError: ``max_queued_requests`` calls wait already.
        """
        # Most calls were sent at once and have a value: those are over without Python.
        return self._result(timeout_s, _skip_asyncio_check, DeploymentResponse._result_slowly)

    def _result_slowly(
        self, timeout_s: float | None, error: BaseException | None, checks: bool = True
    ) -> Any:
        """The answer of a call that was not sent yet, or has ended with that error."""
        call, remaining = self._call, timeout_s
        until = None if timeout_s is None else time.monotonic() + timeout_s
        if error is None and checks:
            forbid_loop()
        while True:
            try:
                if error is not None:
                    raise error
                ref = settled(call, remaining)
                remaining = left(until)
                value = ray.get(ref, timeout=remaining)
            except GetTimeoutError:
                raise TimeoutError(f"No answer within {timeout_s} s.") from None
            except TaskCancelledError:
                call.release()
                raise RequestCancelledError(self.request_id) from None
            except BaseException as failed:
                if failed is not call.error and call.again(failed):
                    error, remaining = None, left(until)
                    continue
                call.failed(failed)
                raise
            call.release()
            return value

    def __await__(self) -> Generator[Any, None, Any]:
        return self._wait().__await__()

    async def _wait(self) -> Any:
        while True:
            try:
                # Most calls were sent at once.
                value = await (self._call.sent or await settled_async(self._call))
            except TaskCancelledError:
                self._call.release()
                raise RequestCancelledError(self.request_id) from None
            except asyncio.CancelledError:
                self.cancel()
                raise
            except BaseException as error:
                if self._call.again(error):
                    continue
                self._call.failed(error)
                raise
            self._call.release()
            return value

    async def _to_object_ref(self) -> Any:
        return await settled_async(self._call)

    def _to_object_ref_sync(
        self, _timeout_s: float | None = None, _allow_running_in_asyncio_loop: bool = False
    ) -> Any:
        if not _allow_running_in_asyncio_loop:
            forbid_loop()
        return settled(self._call, _timeout_s)


class DeploymentResponseGenerator(Response):
    """The answers of a streaming call, one after the other.

    Examples:
        >>> from ray import serve
        >>> @serve.deployment
        ... class Counting:
        ...     def __call__(self, n):
        ...         yield from range(n)
        >>> handle = serve.run(Counting.bind(), name="counting", route_prefix=None)
        >>> list(handle.options(stream=True).remote(3))
        [0, 1, 2]
        >>> serve.delete("counting")
    """

    _has_begun = False

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        forbid_loop()
        while True:
            items = settled(self._call, None)
            try:
                value = ray.get(next(items))
            except BaseException as error:
                if self._is_sent_again(error):
                    continue
                raise
            self._has_begun = True
            return value

    def __aiter__(self) -> AsyncIterator[Any]:
        return self

    async def __anext__(self) -> Any:
        while True:
            items = await settled_async(self._call)
            try:
                value = await (await items.__anext__())
            except asyncio.CancelledError:
                self.cancel()
                raise
            except BaseException as error:
                if self._is_sent_again(error):
                    continue
                raise
            self._has_begun = True
            return value

    def _is_sent_again(self, error: BaseException) -> bool:
        if not self._has_begun and self._call.again(error):
            return True
        self._call.failed(error)
        if isinstance(error, TaskCancelledError):
            raise RequestCancelledError(self.request_id) from None
        return False


class DeploymentBroadcastResponse:
    """The answers of all replicas that ran when ``broadcast`` was called, in no order.

    Examples:
        >>> from ray import serve
        >>> @serve.deployment(num_replicas=2)
        ... class Cache:
        ...     def clear(self):
        ...         return "cleared"
        >>> handle = serve.run(Cache.bind(), name="cache", route_prefix=None)
        >>> handle.broadcast("clear").results(timeout_s=60)
        ['cleared', 'cleared']
        >>> serve.delete("cache")
    """

    def __init__(self, sent: concurrent.futures.Future[list[DeploymentResponse]]) -> None:
        self._sent = sent

    def results(
        self, *, timeout_s: float | None = None, return_exceptions: bool = False
    ) -> list[Any]:
        """Wait for all answers.

        Args:
            timeout_s: Seconds to wait. Default: any time.
            return_exceptions: Have exceptions in the list instead of raising the first. Default False.

        Returns:
            The answers, in no order.

        Raises:
            DeploymentUnavailableError: No replica runs.
            TimeoutError: They were not there in time.
        """
        forbid_loop()
        until = deadline(timeout_s)
        if not waited(lambda most: is_done(self._sent, most), timeout_s):
            raise TimeoutError(f"No replicas were known within {timeout_s} s.")
        responses = self._sent.result()
        answers = []
        for response in responses:
            try:
                answers.append(response.result(timeout_s=left(until)))
            except Exception as error:
                answers.append(error)
        return collected(answers, return_exceptions)

    async def results_async(
        self, *, timeout_s: float | None = None, return_exceptions: bool = False
    ) -> list[Any]:
        """As ``results``, for event loops.

        Args:
            timeout_s: Seconds to wait. Default: any time.
            return_exceptions: Have exceptions in the list instead of raising the first. Default False.

        Returns:
            The answers, in no order.

        Raises:
            TimeoutError: They were not there in time.
        """
        deadline(timeout_s)
        try:
            return await asyncio.wait_for(self._results(return_exceptions), timeout_s)
        except asyncio.TimeoutError:  # another class on Python 3.10
            raise TimeoutError(f"Not every replica answered within {timeout_s} s.") from None

    async def _results(self, return_exceptions: bool) -> list[Any]:
        responses = await asyncio.wrap_future(self._sent)
        answers = await asyncio.gather(*responses, return_exceptions=True)
        return collected(list(answers), return_exceptions)


@dataclasses.dataclass
class ReplicaSelection:
    """A replica that ``choose_replica`` has chosen, with a place for one call.

    Attributes:
        replica_id: Its id.
        node_ip: The address of its node.
        port: Its port, if it has one.
        node_id: Its node.
        availability_zone: Where that is, if it is known.
        replica_metadata: What the deployment's method ``record_replica_metadata`` returned when it
            began.

    Examples:
        >>> import asyncio
        >>> from ray import serve
        >>> @serve.deployment
        ... def double(x):
        ...     return 2 * x
        >>> handle = serve.run(double.bind(), name="chosen", route_prefix=None)
        >>> async def main():
        ...     async with handle.choose_replica(21) as selection:
        ...         print(isinstance(selection, serve.handle.ReplicaSelection))
        ...         return await handle.dispatch(selection, 21)
        >>> asyncio.run(main())
        True
        42
        >>> serve.delete("chosen")
    """

    replica_id: str
    node_ip: str
    port: int | None
    node_id: str
    availability_zone: str | None
    replica_metadata: dict[str, Any]
    _place: Reservation = dataclasses.field(repr=False)
    _is_used: bool = dataclasses.field(default=False, repr=False)

    @property
    def address(self) -> str:
        """The address of the replica's machine."""
        return self.node_ip if self.port is None else f"{self.node_ip}:{self.port}"

    def to_dict(self) -> dict[str, Any]:
        """The fields, as JSON has them."""
        return {
            field.name: getattr(self, field.name)
            for field in dataclasses.fields(self)
            if not field.name.startswith("_")
        }


class DeploymentHandle:
    """Calls a deployment: ``handle.remote(...)``, ``handle.method.remote(...)``.

    Examples:
        >>> from ray import serve
        >>> @serve.deployment
        ... class Model:
        ...     def __call__(self, x):
        ...         return 2 * x
        ...     def name(self):
        ...         return "doubling"
        >>> handle = serve.run(Model.bind(), name="model", route_prefix=None)
        >>> handle.remote(21).result()
        42
        >>> handle.options(method_name="name").remote().result()
        'doubling'
        >>> serve.delete("model")
    """

    def __init__(
        self,
        deployment_name: str,
        app_name: str,
        *,
        _method: str = "__call__",
        _model: str = "",
        _stream: bool = False,
        _session: str = "",
        _stays_here: bool = False,
    ) -> None:
        self._id = DeploymentID(app_name, deployment_name)
        self._method = _method
        self._model = _model
        self._stream = _stream
        self._session = _session
        self._stays_here = _stays_here
        self._router: Router | None = None  # of the session of the last call
        self._route = serving.Route(
            _method,
            _model,
            _session,
            app_name,
            _stays_here,
            request_context,
            Call,
            DeploymentResponse,
        )

    @property
    def deployment_name(self) -> str:
        """The deployment's name."""
        return self._id.name

    @property
    def app_name(self) -> str:
        """The application's name."""
        return self._id.app_name

    @property
    def deployment_id(self) -> DeploymentID:
        """Both."""
        return self._id

    @property
    def is_initialized(self) -> bool:
        """Whether this process knows the deployment's replicas, or asks for them, in this session."""
        return is_known(self._id)

    def running_replicas_populated(self) -> bool:
        """Whether this process knows of a replica that runs."""
        return is_known(self._id) and bool(router_of(self._id).loads)

    def shutdown(self) -> None:
        """Do nothing: handles of a process share what they know, which ends with the session."""

    async def shutdown_async(self) -> None:
        """Do nothing, as ``shutdown``."""

    def options(
        self,
        *,
        method_name: str = UNSET,
        multiplexed_model_id: str = UNSET,
        stream: bool = UNSET,
        session_id: str = UNSET,
        _prefer_local_routing: bool = UNSET,
        _by_reference: bool = UNSET,
        request_serialization: str = UNSET,
        response_serialization: str = UNSET,
    ) -> DeploymentHandle:
        """Return a handle that calls otherwise; what is not named stays.

        Calls of a handle with ``_prefer_local_routing`` go to replicas of its node while these have room.

        Args:
            method_name: The method that ``remote`` calls. Default ``"__call__"``.
            multiplexed_model_id: The model that calls are for.
            stream: ``remote`` returns a generator of answers. Default False.
            session_id: Calls with the same go to the same replica while that has room.
            request_serialization: Has no effect.
            response_serialization: Has no effect.

        Raises:
            NotImplementedError: ``_by_reference=False``.
            ValueError: There is no such serialization.
        """
        for name, given in (
            ("request_serialization", request_serialization),
            ("response_serialization", response_serialization),
        ):
            if given not in (UNSET, *_SERIALIZATIONS):
                raise ValueError(f"`{name}` must be one of {_SERIALIZATIONS}, not {given!r}.")
        if _by_reference is False:
            raise NotImplementedError(
                "Arguments and answers always travel by the object store: leave `_by_reference` out."
            )
        return self._changed(
            self._method if method_name is UNSET else method_name,
            self._model if multiplexed_model_id is UNSET else multiplexed_model_id,
            self._stream if stream is UNSET else stream,
            self._session if session_id is UNSET else session_id,
            self._stays_here if _prefer_local_routing is UNSET else bool(_prefer_local_routing),
        )

    def _changed(
        self, method: str, model: str, stream: bool, session: str, stays_here: bool
    ) -> DeploymentHandle:
        return _arrived(
            self._id.name, self._id.app_name, method, model, stream, session, stays_here
        )

    def __getattr__(self, name: str) -> DeploymentHandle:
        if name.startswith("_"):
            raise AttributeError(name)
        made = self.options(method_name=name)
        self.__dict__[name] = made  # found there from now on: handles do not change
        return made

    def remote(self, *args: Any, **kwargs: Any) -> Any:
        """Call the deployment. Returns at once.

        Args:
            *args: Positional arguments of the method. Responses of other calls may be among them: it gets
                their values.
            **kwargs: Keyword arguments, likewise.

        Returns:
            A ``DeploymentResponse``; with ``stream=True`` a ``DeploymentResponseGenerator``.
        """
        router = self._router
        if router is not None and not self._stream:
            made = self._route.send(router, args, kwargs)  # to the only replica
            if made is not None:
                return made
        if tracing.tracer is None:
            return self._called(self._context(), args, kwargs)
        with tracing.of_call(
            self._id, self._request(), self._method, streams=self._stream
        ) as request:
            return self._called(request, args, kwargs)

    def _called(
        self, request: RequestContext, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        router = self._router
        if router is None or router.epoch != serving.session_epoch():
            router = self._router = router_of(self._id)
        call = Call(
            router,
            tuple(request),
            self._method,
            self._stream,
            args,
            kwargs,
            self._session,
            self._stays_here,
        )
        for one in (*args, *kwargs.values()) if kwargs else args:
            if isinstance(one, Response):
                self._submit_after(call)
                break
        else:
            router.submit(call)
        return DeploymentResponseGenerator(call) if self._stream else DeploymentResponse(call)

    def _submit_after(self, call: Call) -> None:
        """Some of its arguments are responses."""
        call.is_shared = True
        given = _responses(call.args, call.kwargs)
        if not given:
            raise RuntimeError("A streaming response cannot be an argument; read its items first.")
        submit_after(given, call)

    @contextlib.asynccontextmanager
    async def choose_replica(self, *args: Any, **kwargs: Any) -> AsyncIterator[ReplicaSelection]:
        """Have a replica chosen, and a place kept there for one call: ``async with``; see ``dispatch``.

        A router of the deployment's own sees the arguments. The method is the one of this handle. A place to
        which nothing was sent is given back at the end of the block. Raises as a call does that finds no
        replica.

        Args:
            *args: Positional arguments, for the router.
            **kwargs: Keyword arguments, for the router.

        Yields:
            The replica.
        """
        place = Reservation(
            router_of(self._id),
            tuple(self._context()),
            self._method,
            self._stream,
            args,
            kwargs,
            self._session,
            self._stays_here,
        )
        place.router.submit(place)
        try:
            load = await settled_async(place)
            chosen = load.place
            yield ReplicaSelection(
                chosen.id, chosen.host, None, chosen.node, None, dict(chosen.metadata), place
            )
        finally:
            place.router.cancel(place)
            place.release()

    def dispatch(self, selection: ReplicaSelection, *args: Any, **kwargs: Any) -> Any:
        """Call the replica that was chosen.

        Args:
            selection: What ``choose_replica`` gave.
            *args: Positional arguments of the method. Responses of other calls may be among them: it gets
                their values.
            **kwargs: Keyword arguments, likewise.

        Returns:
            What ``remote`` returns. It raises ``ReplicaUnavailableError`` where the replica has gone
            meanwhile.

        Raises:
            ValueError: Another deployment's replica was chosen.
            RuntimeError: The call was made already.
        """
        place = selection._place
        if place.router.deployment != self._id:
            raise ValueError(
                f"The selection is of {place.router.deployment}, and this handle calls {self._id}."
            )
        if selection._is_used:
            raise RuntimeError(
                f"The selection of {selection.replica_id} was dispatched already: choose again for another "
                "call."
            )
        selection._is_used = True
        call = Call(place.router, place.row, place.method, place.streams, args, kwargs)
        call.is_shared = True

        def begin(error: BaseException | None, args: Any, kwargs: Any) -> None:
            if error is not None:
                call.settle(None, error)
                return
            call.args, call.kwargs = args, kwargs
            place.pass_on(call)

        after(_responses(args, kwargs), args, kwargs, begin)
        return DeploymentResponseGenerator(call) if call.streams else DeploymentResponse(call)

    def _context(self) -> RequestContext:
        """The context of a request whose parent span is the present one."""
        request = self._request()
        return tracing.carried(request) if _TRACES in sys.modules else request

    def _request(self) -> RequestContext:
        request_id, route, app, _, trace = request_context.get()
        return _context_of(
            (request_id or new_request_id(), route, app or self._id.app_name, self._model, trace)
        )

    def broadcast(self, method_name: str, *args: Any, **kwargs: Any) -> DeploymentBroadcastResponse:
        """Call a method of every replica that runs, however many calls it has: to reset caches, say.

        Args:
            method_name: The method.
            *args: Positional arguments of the method. Responses of other calls may be among them: it gets
                their values.
            **kwargs: Keyword arguments, likewise.

        Returns:
            What has the answers.
        """
        router, row = router_of(self._id), tuple(self._context())
        sent: concurrent.futures.Future[list[Call]] = concurrent.futures.Future()
        responses: concurrent.futures.Future[list[DeploymentResponse]] = concurrent.futures.Future()

        def begin(error: BaseException | None, args: Any, kwargs: Any) -> None:
            if error is not None:
                sent.set_exception(error)
                return
            router.broadcast(lambda: Call(router, row, method_name, False, args, kwargs), sent)

        def done(_: Any) -> None:
            error = sent.exception()
            if error is not None:
                responses.set_exception(error)
            else:
                responses.set_result([DeploymentResponse(call) for call in sent.result()])

        sent.add_done_callback(done)
        after(_responses(args, kwargs), args, kwargs, begin)
        return DeploymentBroadcastResponse(responses)

    def __reduce__(self) -> Any:
        return _arrived, (
            *reversed(self._id),
            self._method,
            self._model,
            self._stream,
            self._session,
            self._stays_here,
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DeploymentHandle) and self.__reduce__() == other.__reduce__()

    def __hash__(self) -> int:
        return hash((self._id, self._method))

    def __repr__(self) -> str:
        return f"DeploymentHandle(deployment='{self._id.name}')"


def _arrived(
    name: str,
    app: str,
    method: str,
    model: str,
    stream: bool,
    session: str,
    stays_here: bool = False,
) -> DeploymentHandle:
    return DeploymentHandle(
        name,
        app,
        _method=method,
        _model=model,
        _stream=stream,
        _session=session,
        _stays_here=stays_here,
    )


def _responses(args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Response]:
    """The responses among the arguments of a call whose values it is to get."""
    return [one for one in (*args, *kwargs.values()) if isinstance(one, DeploymentResponse)]
