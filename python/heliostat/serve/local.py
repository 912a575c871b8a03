"""Local testing mode: an application within the calling process, without a cluster.

Each deployment is one replica's code on an event loop of its own thread, so that deployments call each other
as they do elsewhere. There is no HTTP, no limit of requests, no scaling, and nothing is pickled.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import dataclasses
import queue
import threading
from collections.abc import AsyncIterator, Coroutine, Generator, Iterator
from typing import Any

from heliostat.serve.context import ReplicaContext, RequestContext
from heliostat.serve.deployment import Application, graph
from heliostat.serve.exceptions import RequestCancelledError
from heliostat.serve.handle import (
    DeploymentBroadcastResponse,
    DeploymentHandle,
    DeploymentResponse,
    DeploymentResponseGenerator,
)
from heliostat.serve.replica.actor import ReplicaActor
from heliostat.serve.response import forbid_loop
from heliostat.serve.specs import DeploymentSpec

_END = object()


class _Servant(ReplicaActor):
    def _announce(self, replica: ReplicaContext) -> None:
        """Note that this process, which is not a replica, has several of them."""


class _Replica:
    """A deployment's code and the thread that runs it."""

    def __init__(self, app: str, spec: DeploymentSpec) -> None:
        config = dataclasses.replace(
            spec.config, autoscaling_config=None, gang_scheduling_config=None
        )
        spec = dataclasses.replace(spec, config=config)
        self.actor = _Servant(app, spec, f"local-{spec.name}", "")
        self.loop = asyncio.new_event_loop()
        name = f"serve-{app}-{spec.name}"
        threading.Thread(target=self.loop.run_forever, name=name, daemon=True).start()

    def start(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Construct it. Raises what the constructor raises."""
        self.run(self.actor.prepare(target, args, kwargs)).result()

    def run(self, work: Coroutine[Any, Any, Any]) -> concurrent.futures.Future[Any]:
        """On its loop."""
        return asyncio.run_coroutine_threadsafe(work, self.loop)


def run(app: Application, name: str) -> DeploymentHandle:
    """Start an application here; a handle to its first deployment."""
    replicas: dict[str, _Replica] = {}

    def handle_of(deployment: str) -> LocalHandle:
        return LocalHandle(deployment, name, _replicas=replicas)

    parts = graph(app, handle_of)
    for spec, _, _, _ in parts:
        replicas[spec.name] = _Replica(name, spec)
    for spec, target, args, kwargs in reversed(parts):
        replicas[spec.name].start(target, args, kwargs)
    return handle_of(parts[0][0].name)


class LocalHandle(DeploymentHandle):
    """A handle to a deployment in this process."""

    def __init__(
        self, deployment_name: str, app_name: str, *, _replicas: dict[str, _Replica], **how: Any
    ) -> None:
        super().__init__(deployment_name, app_name, **how)
        self._replicas = _replicas

    def _changed(
        self, method: str, model: str, stream: bool, session: str, stays_here: bool
    ) -> DeploymentHandle:
        return LocalHandle(
            self.deployment_name,
            self.app_name,
            _replicas=self._replicas,
            _method=method,
            _model=model,
            _stream=stream,
            _session=session,
            _stays_here=stays_here,
        )

    def remote(self, *args: Any, **kwargs: Any) -> Any:
        """Call it, as elsewhere."""
        for one in (*args, *kwargs.values()):
            if isinstance(one, DeploymentResponseGenerator):
                raise RuntimeError(
                    "A streaming response cannot be an argument; read its items first."
                )
        context = self._context()
        replica = self._replicas[self.deployment_name]
        if self._stream:
            return LocalGenerator(replica, context, self._method, args, kwargs)
        work = _call(replica, context, self._method, args, kwargs)
        return LocalResponse(replica.run(work), context.request_id)

    def broadcast(self, method_name: str, *args: Any, **kwargs: Any) -> DeploymentBroadcastResponse:
        """Call it: there is one replica."""
        sent: concurrent.futures.Future[list[DeploymentResponse]] = concurrent.futures.Future()
        one = self.options(method_name=method_name, stream=False)
        sent.set_result([one.remote(*args, **kwargs)])
        return DeploymentBroadcastResponse(sent)

    def __reduce__(self) -> Any:
        raise TypeError("A handle of local testing mode stays in its process.")


async def _value(one: Any) -> Any:
    return await one if isinstance(one, LocalResponse) else one


async def _call(
    replica: _Replica, context: RequestContext, method: str, args: Any, kwargs: Any
) -> Any:
    args = [await _value(one) for one in args]
    kwargs = {name: await _value(one) for name, one in kwargs.items()}
    return await replica.actor.handle_request(context, method, *args, **kwargs)


class _LocalCall:
    """A call in this process: where it runs, and the request that it belongs to."""

    _future: concurrent.futures.Future[Any]
    _id: str

    @property
    def request_id(self) -> str:
        """The id of the request that the call belongs to."""
        return self._id

    def cancel(self) -> None:
        """Raise ``asyncio.CancelledError`` in the deployment."""
        self._future.cancel()

    def cancelled(self) -> bool:
        """Whether it was cancelled."""
        return self._future.cancelled()


class LocalResponse(_LocalCall, DeploymentResponse):
    """The answer of a call in this process."""

    def __init__(self, future: concurrent.futures.Future[Any], request_id: str) -> None:
        self._future = future
        self._id = request_id

    def result(self, *, timeout_s: float | None = None, _skip_asyncio_check: bool = False) -> Any:
        """Wait for the answer, as elsewhere."""
        if not _skip_asyncio_check:
            forbid_loop()
        try:
            return self._future.result(timeout_s)
        except concurrent.futures.CancelledError:
            raise RequestCancelledError(self._id) from None
        except concurrent.futures.TimeoutError:
            if self._future.done():
                raise  # the deployment's own
            raise TimeoutError(f"No answer within {timeout_s} s.") from None

    def __await__(self) -> Generator[Any, None, Any]:
        return self._wait().__await__()

    async def _wait(self) -> Any:
        try:
            return await asyncio.wrap_future(self._future)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if self._future.cancelled() and not (task and _is_cancelling(task)):
                raise RequestCancelledError(self._id) from None
            raise

    async def _to_object_ref(self) -> Any:
        raise RuntimeError("In local testing mode there are no object references.")

    def _to_object_ref_sync(self, *_args: Any, **_kwargs: Any) -> Any:
        raise RuntimeError("In local testing mode there are no object references.")


def _is_cancelling(task: asyncio.Task[Any]) -> bool:
    # Python 3.10 does not say: there a cancelled call looks as if its caller had been cancelled.
    cancelling = getattr(task, "cancelling", None)
    return cancelling is None or bool(cancelling())


class LocalGenerator(_LocalCall, DeploymentResponseGenerator):
    """The answers of a streaming call in this process."""

    def __init__(
        self, replica: _Replica, context: RequestContext, method: str, args: Any, kwargs: Any
    ) -> None:
        self._items: queue.SimpleQueue[tuple[Any, BaseException | None]] = queue.SimpleQueue()
        self._id = context.request_id
        self._is_over = False

        async def pump() -> None:
            given = [await _value(one) for one in args]
            named = {name: await _value(one) for name, one in kwargs.items()}
            try:
                async for item in replica.actor.handle_stream(context, method, *given, **named):
                    self._items.put((item, None))
            except asyncio.CancelledError:
                self._items.put((None, RequestCancelledError(self._id)))
                raise
            except BaseException as error:
                self._items.put((None, error))
            else:
                self._items.put((_END, None))

        self._future = replica.run(pump())

    def _taken(self, got: tuple[Any, BaseException | None]) -> Any:
        item, error = got
        self._is_over = error is not None or item is _END
        if error is not None:
            raise error
        return item

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        forbid_loop()
        if self._is_over or (item := self._taken(self._items.get())) is _END:
            raise StopIteration
        return item

    def __aiter__(self) -> AsyncIterator[Any]:
        return self

    async def __anext__(self) -> Any:
        if self._is_over:
            raise StopAsyncIteration
        item = self._taken(await asyncio.to_thread(self._items.get))
        if item is _END:
            raise StopAsyncIteration
        return item
