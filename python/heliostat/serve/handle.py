"""Handles: calls to deployments from Python."""

from __future__ import annotations

import asyncio
import threading
import time
import uuid
from collections.abc import AsyncIterator, Generator, Iterator
from typing import Any, cast

import heliostat as ray
from heliostat.exceptions import GetTimeoutError, TaskCancelledError
from heliostat.serve.context import request_context
from heliostat.serve.exceptions import ReplicaUnavailableError, RequestCancelledError
from heliostat.serve.router import Call, router_of
from heliostat.serve.specs import DeploymentID

__all__ = ["DeploymentHandle", "DeploymentResponse", "DeploymentResponseGenerator"]

UNSET: Any = cast(Any, object())


class _Response:
    """A call that was made."""

    def __init__(self, call: Call) -> None:
        self._call = call

    @property
    def request_id(self) -> str:
        """The id of the request that the call belongs to."""
        return self._call.context.request_id

    def cancel(self) -> None:
        """Cancel it: it leaves the queue, or ``asyncio.CancelledError`` is raised in the replica."""
        call = self._call
        if not call.router.cancel(call) and call.sent is not None:
            ray.cancel(call.sent)

    def cancelled(self) -> bool:
        """Whether it was cancelled before it was sent."""
        return isinstance(self._call.error, RequestCancelledError)

    def _settled(self, timeout_s: float | None) -> Any:
        call = self._call
        if not call.is_settled():
            event = threading.Event()
            call.when_settled(event.set)
            if not event.wait(timeout_s):
                raise TimeoutError(f"No replica was free within {timeout_s} s.")
        if call.error is not None:
            raise call.error
        return call.sent

    async def _settled_async(self) -> Any:
        call = self._call
        if not call.is_settled():
            loop = asyncio.get_running_loop()
            news: asyncio.Future[None] = loop.create_future()

            def tell() -> None:
                if not news.done():
                    news.set_result(None)

            def settled() -> None:
                loop.call_soon_threadsafe(tell)

            call.when_settled(settled)
            await news
        if call.error is not None:
            raise call.error
        return call.sent

    def __del__(self) -> None:
        call = getattr(self, "_call", None)
        if call is not None and call.load is not None:
            try:
                call.watch()
            except Exception:
                call.release()  # the session is over

    def __reduce__(self) -> Any:
        raise TypeError(
            f"A {type(self).__name__} is passed as an argument of a call of a handle, not inside another "
            "object: await it, or call result() first."
        )


def _forbid_loop() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise RuntimeError(
        "This waits, and would hold up the event loop that it is called from. Use `await` instead."
    )


class DeploymentResponse(_Response):
    """The answer of a call: ``await`` it, call ``result()``, or pass it to another call."""

    def result(self, *, timeout_s: float | None = None, _skip_asyncio_check: bool = False) -> Any:
        """Wait for the answer, at most ``timeout_s`` seconds (default: any time).

        Raises what the deployment raised, ``TimeoutError``, ``RequestCancelledError``, ``BackPressureError``.
        """
        if not _skip_asyncio_check:
            _forbid_loop()
        until = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            ref = self._settled(_left(until))
            try:
                value = ray.get(ref, timeout=_left(until))
            except ReplicaUnavailableError:
                self._call.again()
                continue
            except GetTimeoutError:
                raise TimeoutError(f"No answer within {timeout_s} s.") from None
            except TaskCancelledError:
                self._call.release()
                raise RequestCancelledError(self.request_id) from None
            except BaseException as error:
                self._call.failed(error)
                raise
            self._call.release()
            return value

    def __await__(self) -> Generator[Any, None, Any]:
        return self._wait().__await__()

    async def _wait(self) -> Any:
        while True:
            try:
                ref = await self._settled_async()
                value = await ref
            except ReplicaUnavailableError:
                self._call.again()
                continue
            except TaskCancelledError:
                self._call.release()
                raise RequestCancelledError(self.request_id) from None
            except asyncio.CancelledError:
                self.cancel()
                raise
            except BaseException as error:
                self._call.failed(error)
                raise
            self._call.release()
            return value

    async def _to_object_ref(self) -> Any:
        return await self._settled_async()

    def _to_object_ref_sync(
        self, _timeout_s: float | None = None, _allow_running_in_asyncio_loop: bool = False
    ) -> Any:
        if not _allow_running_in_asyncio_loop:
            _forbid_loop()
        return self._settled(_timeout_s)


class DeploymentResponseGenerator(_Response):
    """The answers of a streaming call, one after the other."""

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        _forbid_loop()
        items = self._settled(None)
        try:
            return ray.get(next(items))
        except BaseException as error:
            self._call.failed(error)
            if isinstance(error, TaskCancelledError):
                raise RequestCancelledError(self.request_id) from None
            raise

    def __aiter__(self) -> AsyncIterator[Any]:
        return self

    async def __anext__(self) -> Any:
        items = await self._settled_async()
        try:
            return await (await items.__anext__())
        except asyncio.CancelledError:
            self.cancel()
            raise
        except BaseException as error:
            self._call.failed(error)
            if isinstance(error, TaskCancelledError):
                raise RequestCancelledError(self.request_id) from None
            raise


def _left(until: float | None) -> float | None:
    return None if until is None else max(0.0, until - time.monotonic())


class DeploymentHandle:
    """Calls a deployment: ``handle.remote(...)``, ``handle.method.remote(...)``."""

    def __init__(
        self,
        deployment_name: str,
        app_name: str,
        *,
        _method: str = "__call__",
        _model: str = "",
        _stream: bool = False,
    ) -> None:
        self._id = DeploymentID(app_name, deployment_name)
        self._method = _method
        self._model = _model
        self._stream = _stream

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
        """A handle that calls otherwise; what is not named stays.

        ``session_id``, ``_prefer_local_routing``, ``_by_reference=False`` and other serializations raise
        ``NotImplementedError``.
        """
        refused = {
            "session_id": session_id is not UNSET and session_id,
            "_prefer_local_routing": _prefer_local_routing is not UNSET and _prefer_local_routing,
            "_by_reference=False": _by_reference is False,
            "request_serialization": request_serialization not in (UNSET, "cloudpickle", None),
            "response_serialization": response_serialization not in (UNSET, "cloudpickle", None),
        }
        for name, is_meant in refused.items():
            if is_meant:
                raise NotImplementedError(f"`{name}` of handles does not work yet.")
        return DeploymentHandle(
            *reversed(self._id),
            _method=self._method if method_name is UNSET else method_name,
            _model=self._model if multiplexed_model_id is UNSET else multiplexed_model_id,
            _stream=self._stream if stream is UNSET else stream,
        )

    def __getattr__(self, name: str) -> DeploymentHandle:
        if name.startswith("_"):
            raise AttributeError(name)
        return self.options(method_name=name)

    def remote(self, *args: Any, **kwargs: Any) -> Any:
        """Call it: a ``DeploymentResponse``, or with ``stream=True`` a ``DeploymentResponseGenerator``.

        Responses of other calls may be arguments: the deployment gets their values.
        """
        here = request_context.get()
        context = here._replace(
            request_id=here.request_id or str(uuid.uuid4()),
            app_name=here.app_name or self._id.app_name,
            multiplexed_model_id=self._model,
        )
        router = router_of(self._id)
        call = Call(router, context, self._method, self._stream, args, kwargs)
        given = [one for one in (*args, *kwargs.values()) if isinstance(one, DeploymentResponse)]
        if given:
            _submit_after(call, given)
        elif any(isinstance(one, DeploymentResponseGenerator) for one in (*args, *kwargs.values())):
            raise RuntimeError("A streaming response cannot be an argument; read its items first.")
        else:
            router.submit(call)
        return DeploymentResponseGenerator(call) if self._stream else DeploymentResponse(call)

    def broadcast(self, *_args: Any, **_kwargs: Any) -> Any:
        """Not there yet."""
        raise NotImplementedError("`broadcast` of handles does not work yet.")

    def __reduce__(self) -> Any:
        return _arrived, (*reversed(self._id), self._method, self._model, self._stream)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DeploymentHandle) and self.__reduce__() == other.__reduce__()

    def __hash__(self) -> int:
        return hash((self._id, self._method))

    def __repr__(self) -> str:
        return f"DeploymentHandle(deployment='{self._id.name}')"


def _arrived(name: str, app: str, method: str, model: str, stream: bool) -> DeploymentHandle:
    return DeploymentHandle(name, app, _method=method, _model=model, _stream=stream)


def _submit_after(call: Call, given: list[DeploymentResponse]) -> None:
    """Submit it once those before it are on their way: their values go to it without a stop here."""
    left = len(given)
    lock = threading.Lock()

    def settled() -> None:
        nonlocal left
        with lock:
            left -= 1
            if left:
                return
        error = next((one._call.error for one in given if one._call.error is not None), None)
        if error is not None:
            call.settle(None, error)
            return
        call.args = tuple(map(_reference, call.args))
        call.kwargs = {name: _reference(value) for name, value in call.kwargs.items()}
        call.router.submit(call)

    for one in given:
        one._call.when_settled(settled)


def _reference(value: Any) -> Any:
    return value._call.sent if isinstance(value, DeploymentResponse) else value
