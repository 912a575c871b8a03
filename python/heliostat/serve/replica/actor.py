"""A replica: an actor that runs a deployment's code for handles and for the ingress."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import contextvars
import functools
import inspect
import logging
import os
import traceback
from collections.abc import AsyncIterator, Callable, Coroutine
from time import perf_counter
from types import AsyncGeneratorType, GeneratorType, SimpleNamespace
from typing import Any

import heliostat as ray
from heliostat import cloudpickle
from heliostat.core.platform import auth, encryption, serving
from heliostat.core.platform.extras import required
from heliostat.exceptions import AsyncioActorExit
from heliostat.serve import asgi, context, logs, multiplex, servicers, sockets, specs, tracing
from heliostat.serve.context import (
    ReplicaContext,
    ReplicaID,
    RequestContext,
    RequestRow,
    request_context,
)
from heliostat.serve.deployment_config import DeploymentConfig
from heliostat.serve.exceptions import BackPressureError, ReplicaUnavailableError
from heliostat.serve.gang import GangContext
from heliostat.serve.options import (
    AutoscalingConfig,
    BackpressureConfig,
    LoggingConfig,
    TracingConfig,
)
from heliostat.serve.replica import passing, rpc
from heliostat.serve.replica.admission_gate import GENERATOR, AdmissionGate
from heliostat.serve.replica.answers import TEXT, answer_of, send_items
from heliostat.serve.replica.connection import PIECE_MAX, Connection, Exchange
from heliostat.serve.replica.meter import Figures, Meter
from heliostat.serve.replica.socket import Socket
from heliostat.serve.servicers import Method
from heliostat.serve.specs import DeploymentID, DeploymentSpec, ReplicaLocation

logger = logging.getLogger("ray.serve")

# How soon the controller hears of another number of requests.
_COUNTS_S = 0.05
_request_of = functools.partial(tuple.__new__, RequestContext)
_GENERATORS = (GeneratorType, AsyncGeneratorType)
_NO_SOCKETS = b"The deployment has no WebSockets: give it an ASGI application with @serve.ingress."


class ReplicaActor:
    """The actor."""

    def __init__(
        self,
        app: str,
        spec: DeploymentSpec,
        replica: str,
        route: str,
        logging: LoggingConfig | None = None,
        root_path: str = "",
        world_size: int = 1,
        servicers: tuple[str, ...] = (),
        traced: TracingConfig | None = None,
        gang: GangContext | None = None,
    ) -> None:
        self._traced = traced
        self._root_path = root_path
        self._servicers = servicers
        self._rpc_methods: dict[str, Method] = {}
        self._metadata: dict[str, Any] = {}  # that `record_replica_metadata` gave
        self._default_logging = logging
        self._is_told = False  # each request has a line in the log
        self._id = ReplicaID(replica, DeploymentID(app, spec.name))
        self._context = ReplicaContext(
            self._id,
            None,
            spec.config.max_ongoing_requests,
            world_size,
            gang_context=gang,
            code_version=spec.code_version,
        )
        self._spec = spec
        self._route = route
        self._config: DeploymentConfig = spec.config
        self._is_counted = spec.config.autoscaling_config is not None  # the controller is told
        self._gate = AdmissionGate(spec.config.max_ongoing_requests, self)
        self._gate.set_context(_request_of, request_context)
        self._threads = concurrent.futures.ThreadPoolExecutor(spec.config.max_ongoing_requests)
        self._servable: Any = None
        self._is_function = False
        self._app: Any = None
        self._lifespan: asgi.Lifespan | None = None
        self._is_leaving = False
        self._idle: asyncio.Event | None = None
        self._end = asyncio.Event()
        self._has_exited = False
        self._address = ""
        self._server: asyncio.AbstractServer | None = None
        self._port: asyncio.Server | None = None
        self._counted: Any = None
        self._takes_request = True
        self._meter = Meter(self._id, self._gate)
        self._recording: asyncio.Task[None] | None = None
        self._routing: asyncio.Task[None] | None = None
        self._news_for_routers = asyncio.Event()

    def location(self) -> ReplicaLocation:
        """The replica's location, and its ranks, if it has any yet."""
        process = serving.session()
        return ReplicaLocation(
            process["node_id"],
            process["host"],
            os.getpid(),
            ray.get_runtime_context().get_worker_id(),
            logs.told_path(self._logging(), self._id, process["session_dir"]),
            self._context.ranks if self._address else None,
            ray.get_runtime_context().get_actor_id() or "",
        )

    async def initialize(self, ingress_node: str, ranks: tuple[int, int, int] = (0, 0, 0)) -> str:
        """Construct it; its socket's address. A second call gives that again."""
        if not self._address:
            self._context.ranks = ranks
            tracing.set_up(self._traced, self._id, serving.session()["session_dir"])
            self._log()  # after it: calls that are traced are not plain
            await self.prepare(*cloudpickle.loads(self._spec.code))
            self._metadata = await self._said_of_itself()
            await self._listen(ingress_node)
            if hasattr(self._servable, "record_autoscaling_stats") and not self._is_function:
                self._recording = asyncio.get_running_loop().create_task(self._record())
            self._tell_routers()
        return self._address

    async def _said_of_itself(self) -> dict[str, Any]:
        method = getattr(self._servable, "record_replica_metadata", None)
        if method is None or self._is_function:
            return {}
        said = await method() if _is_async(method) else await self._in_thread(method)
        if said is not None and not isinstance(said, dict):
            raise TypeError(
                f"record_replica_metadata has to return a dict, not a {type(said).__name__}."
            )
        return said or {}

    def metadata(self) -> dict[str, Any]:
        """Return the result of the deployment's ``record_replica_metadata`` when it began."""
        return self._metadata

    async def rank(self, ranks: tuple[int, int, int], world_size: int) -> None:
        """Take over these ranks, and the number of replicas that the deployment is to have."""
        has_changed = ranks != self._context.ranks
        self._context.ranks, self._context.world_size = ranks, world_size
        if has_changed and self._wants_rank():
            await self._reconfigure(self._config.user_config)

    async def open_port(self) -> str:
        """Listen for ingresses of other machines, too; ``host:port``. A second call gives it again."""
        if self._port is None:
            self._port = await self._open()
        host, port = self._port.sockets[0].getsockname()[:2]
        return f"{host}:{port}"

    def _logging(self) -> LoggingConfig | None:
        return self._config.logging_config or self._default_logging

    def _log(self) -> None:
        chosen = self._logging()
        self._is_told = chosen is not None and chosen.enable_access_log
        self._mark_plain()
        logs.set_up(chosen, self._id, serving.session()["session_dir"])

    async def prepare(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Construct and configure it, so that it takes calls. Raises what the user's code raises."""
        await self._construct(target, args, kwargs)
        if self._config.user_config is not None or self._wants_rank():
            await self._reconfigure(self._config.user_config)
        await self.check_health()

    async def _listen(self, ingress_node: str) -> None:
        """A socket of this machine where the ingress is here too, else a port; both ask for the token."""
        here = serving.session()
        loop = asyncio.get_running_loop()
        if here["node_id"] == ingress_node:
            self._address = sockets.of_replica(here["session_dir"], self._id)
            self._server = await loop.create_unix_server(self._connection(), self._address)
        else:
            self._server = await self._open()
            host, port = self._server.sockets[0].getsockname()[:2]
            self._address = f"{host}:{port}"

    async def _open(self) -> asyncio.Server:
        loop, make = asyncio.get_running_loop(), self._connection()
        files = encryption.files(serving.session()["session_dir"])
        accepting = encryption.Accepting(files) if files else None

        def connection() -> Connection:
            if accepting is not None:
                accepting.refresh()  # the session is begun after this
            return make()

        context = accepting.context if accepting else None
        return await loop.create_server(connection, serving.session()["host"], 0, ssl=context)

    def _connection(self) -> Callable[[], Connection]:
        token = auth.token_of(serving.session()["session_dir"])
        return lambda: Connection(token, self._serve_http)

    def _announce(self, replica: ReplicaContext) -> None:
        """Note that this process is the replica from here on."""
        context.set_replica_context(replica)

    async def _construct(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        replica = self._context
        self._announce(replica)
        if inspect.isclass(target):
            if inspect.iscoroutinefunction(target.__init__):
                made = target.__new__(target)
                replica.servable_object = made
                await made.__init__(*args, **kwargs)  # type: ignore[misc] # made without it
            else:
                made = target(*args, **kwargs)
            self._servable = made
            self._app = getattr(made, "_serve_asgi_app", None)
        else:
            self._servable = target
            self._is_function = True
        replica.servable_object = self._servable
        methods = SimpleNamespace(__call__=target) if self._is_function else self._servable
        self._gate.servable = methods
        starts_tasks = getattr(self._servable, "_serve_start_tasks", None)  # of `@task_consumer`
        if starts_tasks is not None:
            await self._in_thread(starts_tasks, self._config.max_ongoing_requests)
        if self._app is not None:
            self._app = await asgi.resolve(self._app, made)
            self._lifespan = asgi.Lifespan(self._app)
            await self._lifespan.start()
        else:
            if callable(self._servable):
                self._takes_request = bool(inspect.signature(self._servable).parameters)

    # --- calls of handles

    def handle_request(self, context: RequestRow, method: str, /, *args: Any, **kwargs: Any) -> Any:
        """A call of a handle; ``context`` is its ``RequestContext``. Returns something to await."""
        begun = self._gate.begin(context, method, args, kwargs)
        return self._handle(context, method, args, kwargs) if begun is None else begun

    async def _handle(
        self, context: RequestRow, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """A call that waits for a place, is not a coroutine, or of which somebody is told."""
        if not self._take():
            await self._gate.enter()
        request = RequestContext._make(context)
        began, outcome, has_failed = perf_counter(), "ERROR", True
        self._meter.begin()
        try:
            request_context.set(request)
            with tracing.of_replica(self._id, request, method):
                value = await self._call(self._method(method), args, kwargs)
            outcome, has_failed = "OK", False
            return value
        except asyncio.CancelledError:
            outcome, has_failed = "CANCELLED", False
            raise
        except AsyncioActorExit:
            self._exit()
            raise
        finally:
            self._meter.end(request.route, perf_counter() - began, has_failed=has_failed)
            if self._is_told:
                logs.access(f"CALL {method}", outcome, began)
            self._leave()

    # --- of calls that the gate has begun

    def _mark_plain(self) -> None:
        """Have the gate begin calls of which nobody has to be told."""
        self._gate.is_plain = not (
            self._is_leaving
            or self._is_counted
            or self._is_told
            or self._idle is not None
            or tracing.tracer is not None
        )

    def on_left(self) -> None:
        """A call has ended, and others wait or somebody wants to know."""
        self._count()
        if self._idle is not None and self._gate.total == 0:
            self._idle.set()

    def on_failed(self, error: BaseException) -> None:
        """A call has ended with that error."""
        if isinstance(error, AsyncioActorExit):
            self._exit()

    def on_news(self) -> None:
        """Wake who tells of calls."""
        self._meter.tell_soon()

    async def handle_stream(
        self, context: RequestRow, method: str, /, *args: Any, **kwargs: Any
    ) -> AsyncIterator[Any]:
        """A call of a handle whose answers come one by one; ``context`` is its ``RequestContext``."""
        if method == specs.ANSWER_METHOD:
            replica = self._id.to_full_id_str()
            async for frame in passing.answers(self._serve_http, replica, *args):
                yield frame
            return
        if not self._take():
            await self._gate.enter()
        request = RequestContext._make(context)
        with (
            self._meter.request(request.route),
            tracing.of_replica(self._id, request, method, streams=True),
        ):
            try:
                request_context.set(request)
                async for item in self._items(method, self._method(method)(*args, **kwargs)):
                    yield item
            except AsyncioActorExit:
                self._exit()
                raise
            finally:
                self._leave()

    async def _items(self, method: str, items: Any) -> AsyncIterator[Any]:
        """Yield the items of a generator, in a thread where it is not asynchronous; a coroutine may
        return one.
        """
        if inspect.isawaitable(items):
            items = await items
        if hasattr(items, "__anext__"):
            async for item in items:
                yield item
        elif hasattr(items, "__next__"):
            missing = object()
            while (item := await self._in_thread(next, items, missing)) is not missing:
                yield item
        else:
            raise TypeError(
                f"Method '{method}' returned a {type(items).__name__}: with stream=True it "
                "has to be a generator."
            )

    def _take(self) -> bool:
        """Whether a call has a place. Raises ``ReplicaUnavailableError`` where it will get none."""
        if self._is_leaving:
            raise ReplicaUnavailableError(self._id.to_full_id_str())
        self._count()
        return self._gate.take()

    def _leave(self) -> None:
        self._gate.leave()
        self._count()
        if self._idle is not None and self._gate.total == 0:
            self._idle.set()

    def _method(self, name: str) -> Callable[..., Any]:
        if self._is_function:
            if name != "__call__":
                raise AttributeError(f"The deployment is a function and has no method {name!r}.")
            return self._servable  # type: ignore[no-any-return] # the user's
        found: Callable[..., Any] | None = getattr(self._servable, name, None)
        if found is None:
            have = [one for one in dir(self._servable) if not one.startswith("_")]
            raise AttributeError(
                f"Tried to call a method '{name}' that does not exist. Available methods: {have}."
            )
        return found

    async def _call(self, target: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        if _is_async(target):
            value = await target(*args, **kwargs)
        else:
            value = await self._in_thread(target, *args, **kwargs)
            if inspect.isawaitable(value):
                value = await value
        if type(value) in _GENERATORS:
            raise TypeError(GENERATOR)
        return value

    async def _in_thread(self, target: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        here = contextvars.copy_context()
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, lambda: here.run(target, *args, **kwargs))

    # --- requests of an ingress

    async def _serve_http(self, exchange: Exchange) -> None:
        if self._is_leaving:
            exchange.refuse()
            return
        if self._is_routed(exchange):
            await self._pass_on(exchange)
            return
        began = perf_counter()
        self._count()
        if not self._gate.take():
            await self._gate.enter()
        try:
            scope = exchange.scope
            if self._root_path:  # which a proxy before the HTTP server has cut off
                scope["root_path"] = self._root_path + scope["root_path"]
                scope["path"] = self._root_path + scope["path"]
                scope["raw_path"] = self._root_path.encode() + scope["raw_path"]
            request = self._request(scope["headers"])
            request_context.set(request)
            with tracing.of_replica(self._id, request, "__call__") as span:
                try:
                    with self._meter.request(self._route):
                        await self._serve(exchange, request.request_id, span)
                except Exception as error:
                    if isinstance(error, AsyncioActorExit):
                        self._exit()
                    self._refuse_or_fail(exchange, error)
                    span.failed(error)
                if scope["type"] == "http":
                    span.of_http(scope["method"], exchange.status, self._route)
        finally:
            if exchange.status and exchange.scope["type"] != "grpc":
                method = exchange.scope.get("method", "WEBSOCKET")
                took_s = perf_counter() - began
                self._meter.answered(self._route, method, exchange.status, took_s)
                if self._is_told:
                    path = exchange.scope["path"]
                    logs.access(f"{method} {path}", str(exchange.status), began)
            self._leave()

    def _is_routed(self, exchange: Exchange) -> bool:
        """Whether another replica may have to answer: the ingress does not ask the user's router.

        What a client goes on to say while it is answered cannot be passed on.
        """
        if self._config.request_router_config is None or self._config.own_routing() is None:
            return False
        kind = exchange.scope["type"]
        if isinstance(exchange, passing.ForwardedRequest) or kind == "websocket":
            return False
        return kind == "http" or not self._rpc_method(exchange.scope["path"]).takes_stream

    async def _pass_on(self, exchange: Exchange) -> None:
        request = self._request(exchange.scope["headers"])
        try:
            await passing.pass_on(exchange, self._id.deployment_id, request)
        except Exception as error:
            if exchange.scope["type"] == "grpc" and not exchange.has_begun:
                method = self._rpc_method(exchange.scope["path"])
                call = rpc.Call(exchange, method, request.request_id)
                await call.end(*call.outcome(error))
            else:
                self._refuse_or_fail(exchange, error)

    def _rpc_method(self, path: str) -> Method:
        if not self._rpc_methods:
            self._rpc_methods = servicers.methods_of(self._servicers)
        return self._rpc_methods[path]

    def _request(self, headers: list[tuple[bytes, bytes]]) -> RequestContext:
        request_id = model = ""
        for name, value in headers:
            if name == b"x-request-id":
                request_id = value.decode("latin-1")
            elif name in (b"serve_multiplexed_model_id", b"multiplexed_model_id"):
                model = value.decode("latin-1")
        app, above = self._id.deployment_id.app_name, tracing.of_headers(headers)
        return RequestContext(request_id, self._route, app, model, above)

    def _serve(
        self, exchange: Exchange, request_id: str, span: tracing.Span
    ) -> Coroutine[Any, Any, None]:
        kind = exchange.scope["type"]
        if kind == "grpc":
            return self._serve_rpc(exchange, request_id, span)
        if kind == "websocket":
            return self._converse(exchange)
        if self._app is not None:
            return self._app(  # type: ignore[no-any-return] # the user's
                exchange.scope, exchange.receive, exchange.send
            )
        return self._answer(exchange)

    def _refuse_or_fail(self, exchange: Exchange, error: Exception) -> None:
        if isinstance(error, OSError):
            if not exchange.is_gone:
                self._failed(exchange)
        elif isinstance(error, BackPressureError):
            if not exchange.has_begun:
                after = BackpressureConfig(retry_after_s=error.retry_after_s).as_row()[
                    "retry_after"
                ]
                again = [] if after is None else [(b"retry-after", str(after).encode())]
                exchange.answer(error.status_code, [*TEXT, *again], str(error).encode())
        else:
            self._failed(exchange)

    async def _serve_rpc(self, exchange: Exchange, request_id: str, span: tracing.Span) -> None:
        """A call of gRPC: the deployment's method of its name, with a message or a stream of them."""
        began, path = perf_counter(), exchange.scope["path"]
        method = self._rpc_method(path)
        self._meter.call()
        code = rpc.CANCELLED
        try:
            code = await self._answer_rpc(exchange, request_id, method, path, span)
        finally:
            self._meter.called(self._route, path, code, perf_counter() - began)
        if self._is_told:
            logs.access(f"GRPC {path}", str(code), began)

    async def _answer_rpc(
        self, exchange: Exchange, request_id: str, method: Method, path: str, span: tracing.Span
    ) -> int:
        """Answer it; with which code."""
        call = rpc.Call(exchange, method, request_id)
        error: BaseException | None = None
        try:
            await self._call_rpc(call, method, path.rpartition("/")[2])
        except (OSError, asyncio.CancelledError):
            if exchange.is_gone:
                raise
            error = ConnectionError("the call was cancelled")
        except Exception as raised:
            error = raised
            if not isinstance(raised, rpc.RpcError):
                logger.error("Call %s failed:\n%s", path, traceback.format_exc())
        code, details = call.outcome(error)
        await call.end(code, details)
        span.of_rpc(path, code, error)
        return code

    async def _call_rpc(self, call: rpc.Call, method: Method, name: str) -> None:
        try:
            target = self._method(name)
        except AttributeError as error:
            raise rpc.unknown(name, error) from None
        wants_context = "grpc_context" in inspect.signature(target).parameters
        kwargs = {"grpc_context": call.context} if wants_context else {}
        request = await call.request()
        if not method.gives_stream:
            await call.send(await self._call(target, (request,), kwargs))
            return
        async for answer in self._items(name, target(request, **kwargs)):
            await call.send(answer)

    async def _converse(self, exchange: Exchange) -> None:
        if self._app is None:
            exchange.answer(403, TEXT, _NO_SOCKETS)
            return
        socket, has_failed = Socket(exchange), False
        try:
            await self._app(exchange.scope, socket.receive, socket.send)
        except Exception:
            has_failed = True
            if not (exchange.is_gone or socket.is_over):
                self._failed(exchange)
        await socket.end(has_failed=has_failed)

    def _failed(self, exchange: Exchange) -> None:
        logger.error(
            "Request %s %s failed:\n%s",
            exchange.scope.get("method", "WebSocket"),
            exchange.scope["path"],
            traceback.format_exc(),
        )
        if not exchange.has_begun and exchange.scope["type"] == "http":
            exchange.answer(500, TEXT, b"Internal Server Error")

    async def _answer(self, exchange: Exchange) -> None:
        target = self._method("__call__")
        given = (
            (_request_class()(exchange.scope, exchange.receive, exchange.send),)
            if self._takes_request
            else ()
        )
        if _is_async(target):
            value = await target(*given)
        else:
            value = await self._in_thread(target, *given)
            if inspect.isawaitable(value):
                value = await value
        if callable(value) and hasattr(value, "background"):  # a Starlette response
            await value(exchange.scope, exchange.receive, exchange.send)
            return
        if isinstance(value, _GENERATORS):
            await send_items(self._items("__call__", value), exchange.send)
            return
        headers, body = answer_of(value)
        if len(body) <= PIECE_MAX:
            exchange.answer(200, headers, body)
        else:
            # Clients read a body of known length in one go.
            headers = (*headers, (b"content-length", b"%d" % len(body)))
            await exchange.send({"type": "http.response.start", "status": 200, "headers": headers})
            await exchange.send({"type": "http.response.body", "body": body})

    # --- the controller

    async def reconfigure(self, config: DeploymentConfig) -> None:
        """Take another configuration; ``user_config`` goes to the deployment's ``reconfigure``."""
        before, self._config = self._config, config
        self._is_counted = config.autoscaling_config is not None
        self._mark_plain()
        self._gate.most = config.max_ongoing_requests
        if config.max_ongoing_requests != before.max_ongoing_requests:
            self._threads = concurrent.futures.ThreadPoolExecutor(config.max_ongoing_requests)
        self._gate.let_in()
        if config.logging_config != before.logging_config:
            self._log()
        self._tell_routers()
        if config.user_config is not None and config.user_config != before.user_config:
            await self._reconfigure(config.user_config)

    async def _reconfigure(self, user_config: Any) -> None:
        method = getattr(self._servable, "reconfigure", None)
        if method is None or self._is_function:
            raise ValueError(
                "user_config was given, but the deployment has no method `reconfigure(self, user_config)`."
            )
        ranks = {"rank": self._context.rank} if self._wants_rank() else {}
        result = method(user_config, **ranks)
        if inspect.isawaitable(result):
            await result

    def _wants_rank(self) -> bool:
        """Whether the deployment's `reconfigure` is to be told of each of its ranks."""
        method = None if self._is_function else getattr(self._servable, "reconfigure", None)
        return method is not None and "rank" in inspect.signature(method).parameters

    async def check_health(self) -> Figures:
        """Return the counts since the last time. Raises what the deployment's ``check_health``
        raises.
        """
        method = getattr(self._servable, "check_health", None)
        if method is not None and not self._is_function:
            if _is_async(method):
                await method()
            else:
                await self._in_thread(method)
        return self._meter.take()

    async def _record(self) -> None:
        """Tell the controller, each ``metrics_interval_s``, what the deployment records for its policy."""
        method = self._servable.record_autoscaling_stats
        while not self._is_leaving:
            scaling = self._config.autoscaling_config or AutoscalingConfig()
            if scaling.policy is not None:
                try:
                    stats = await method() if _is_async(method) else await self._in_thread(method)
                    stats = {str(name): float(value) for name, value in stats.items()}
                    controller = ray.get_actor(specs.CONTROLLER_NAME, namespace=specs.NAMESPACE)
                    controller.record.remote(self._id.deployment_id, self._id.unique_id, stats)
                except Exception:
                    logger.exception("record_autoscaling_stats has to return numbers by name.")
            await asyncio.sleep(scaling.metrics_interval_s)

    def _tell_routers(self) -> None:
        """Send the replica's facts to routers of the user's own, from now on."""
        if self._routing is not None:
            self._news_for_routers.set()  # how often may be another
        elif self._config.own_routing() is not None:
            self._news_for_routers = multiplex.changes()
            self._routing = asyncio.get_running_loop().create_task(self._record_routing())

    async def _record_routing(self) -> None:
        method = (
            None if self._is_function else getattr(self._servable, "record_routing_stats", None)
        )
        changed = self._news_for_routers
        while not self._is_leaving and (routing := self._config.own_routing()) is not None:
            stats: dict[str, Any] = {}
            try:
                if method is not None:
                    asked = method() if _is_async(method) else self._in_thread(method)
                    stats = dict(
                        await asyncio.wait_for(asked, routing.request_routing_stats_timeout_s)
                    )
            except asyncio.TimeoutError:
                logger.warning("record_routing_stats took too long.")
            except Exception:
                logger.exception("record_routing_stats has to return a dict.")
            with contextlib.suppress(
                Exception
            ):  # a controller that begins anew is told the next time
                controller = ray.get_actor(specs.CONTROLLER_NAME, namespace=specs.NAMESPACE)
                models = multiplex.loaded_by(self._servable)
                controller.record_routing.remote(
                    self._id.deployment_id, self._id.unique_id, models, stats
                )
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(changed.wait(), routing.request_routing_stats_period_s)
            changed.clear()
        self._routing = None

    def ongoing(self) -> int:
        """The number of requests at this replica."""
        return self._gate.total

    async def drain(self, timeout_s: float) -> bool:
        """Begin nothing any more, and end what is here, within that time; then its ``__del__``.

        Returns whether nothing was left.
        """
        self._is_leaving = True
        self._idle = asyncio.Event()
        self._mark_plain()
        if self._gate.total:
            try:
                await asyncio.wait_for(self._idle.wait(), timeout_s)
            except asyncio.TimeoutError:
                logger.warning("Replica %s still had requests after %s s.", self._id, timeout_s)
        self._meter.tell()
        tracing.end()
        if self._lifespan is not None:
            await self._lifespan.stop()
        if self._server is not None:
            self._server.close()
        if self._port is not None:
            self._port.close()
        ends = getattr(type(self._servable), "__del__", None)
        if ends is not None:
            result = ends(self._servable)
            if inspect.isawaitable(result):
                await result
        return self._gate.total == 0

    def _exit(self) -> None:
        """The deployment's code has called `exit_actor`: nothing of this process is to hold that up."""
        self._is_leaving = self._has_exited = True
        self._mark_plain()
        self._end.set()

    async def until_end(self) -> bool:
        """Answers when it leaves, with whether its own code does so; else who asks hears of its end."""
        await self._end.wait()
        return self._has_exited

    async def leave(self) -> None:
        """End this process, which was drained: calls without an answer have not begun."""
        self._end.set()
        ray.actor.exit_actor()

    def _count(self) -> None:
        if not self._is_counted or self._counted is not None:
            return
        self._counted = asyncio.get_running_loop().call_later(_COUNTS_S, self._tell_count)

    def _tell_count(self) -> None:
        self._counted = None
        try:
            controller = ray.get_actor(specs.CONTROLLER_NAME, namespace=specs.NAMESPACE)
            controller.count.remote(self._id.deployment_id, self._id.unique_id, self._gate.total)
        except Exception as error:
            logger.debug("The controller was not told of the load: %s", error)


@functools.cache
def _request_class() -> type[Any]:
    """Starlette's; raises ``ImportError`` where that is not installed."""
    requests = required("starlette.requests", "Requests over HTTP")
    return requests.Request  # type: ignore[no-any-return] # without types


def _is_async(target: Callable[..., Any]) -> bool:
    # Each call asks this: most are plain methods, which answer at once.
    code = getattr(target, "__code__", None)
    if code is not None and code.co_flags & inspect.CO_COROUTINE:
        return True
    return inspect.iscoroutinefunction(target) or inspect.iscoroutinefunction(
        getattr(target, "__call__", None)  # noqa: B004 - an object's, to look at
    )
