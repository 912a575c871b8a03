"""ASGI applications in deployments: ``@serve.ingress``."""

from __future__ import annotations

import asyncio
import collections
import inspect
import io
import sys
import typing
from collections.abc import Callable, Iterator
from typing import Any

from heliostat import cloudpickle
from heliostat.serve.context import get_servable

# Instead of an application: the class makes it.
_BUILT_LATE = "__serve_build_asgi_app__"


class ASGIIngressDeployment:
    """Has the arguments of ``bind``, where an application answers without a class of the user's."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.args = args
        self.kwargs = kwargs


def ingress(app: Any = None) -> Callable[..., type]:
    """Have an ASGI application answer the HTTP requests of a class.

    Routes of FastAPI that are methods of the class get the replica's instance as ``self``.

    Args:
        app: A FastAPI or other ASGI application, or a function that makes one in the replica. Default: what
            the class's method ``__serve_build_asgi_app__`` returns after the constructor.

    Returns:
        A decorator of the class; ``@serve.deployment`` stands above it. Called without one it returns a class
        that has the application alone, for ``serve.deployment(serve.ingress(app)())``.

    Raises:
        ValueError: What is decorated is not a class, has a method ``__call__``, or has to make the
            application and cannot.

    Examples:
        >>> from fastapi import FastAPI
        >>> from ray import serve
        >>> app = FastAPI()
        >>> @serve.deployment
        ... @serve.ingress(app)
        ... class Api:
        ...     @app.get("/double/{x}")
        ...     def double(self, x: int):
        ...         return 2 * x
        >>> handle = serve.run(Api.bind(), name="api", route_prefix="/api")
        >>> serve.delete("api")

        ``GET /api/double/21`` is answered with ``42`` meanwhile.
    """

    def decorate(cls: type = ASGIIngressDeployment) -> type:
        if not inspect.isclass(cls):
            raise ValueError("@serve.ingress must be used with a class.")
        if "__call__" in vars(cls) and not hasattr(cls, "_serve_asgi_app"):
            raise ValueError("A class with @serve.ingress cannot have a method `__call__`.")
        if app is None and not hasattr(cls, _BUILT_LATE):
            raise ValueError(
                f"serve.ingress() without an application needs a method `{_BUILT_LATE}` of "
                f"{cls.__name__}, which returns one."
            )
        if hasattr(app, "include_router") and hasattr(app, "routes"):
            _bind_methods(app, cls)
        held = staticmethod(app) if inspect.isfunction(app) else app
        body = {
            "_serve_asgi_app": _BUILT_LATE if app is None else held,
            "__module__": cls.__module__,
            "__qualname__": cls.__qualname__,
            "__doc__": cls.__doc__,
        }
        return type(cls.__name__, (cls,), body)

    return decorate


async def resolve(app: Any, servable: Any) -> Any:
    """The application itself, from what may make one; raises what that raises."""
    if app == _BUILT_LATE:
        app = getattr(servable, _BUILT_LATE)()
    elif inspect.isfunction(app) and not inspect.signature(app).parameters:
        app = app()
    return await app if inspect.isawaitable(app) else app


def _bind_methods(app: Any, cls: type) -> None:
    """FastAPI passes the instance of the replica for the ``self`` of routes that are the class's methods."""
    from fastapi import APIRouter, Depends
    from fastapi.routing import APIRoute, APIWebSocketRoute

    router = APIRouter()
    for holder, route in list(_routes(app)):
        if not isinstance(route, APIRoute | APIWebSocketRoute):
            continue
        if not _is_method(route.endpoint, cls):
            if getattr(route.endpoint, "_serve_class", cls) is not cls:
                holder.routes.remove(route)  # of another class with the same application
            continue
        route.endpoint._serve_class = cls
        signature = _resolved(route.endpoint)
        own, *others = signature.parameters.values()
        instance = own.replace(default=Depends(get_servable))
        # A parameter with a default stands before others without one: by name they may.
        named = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in others]
        route.endpoint.__signature__ = signature.replace(parameters=[instance, *named])
        holder.routes.remove(route)
        bound = route
        if isinstance(route, APIWebSocketRoute):
            # FastAPI has looked at the signature as it was.
            bound = APIWebSocketRoute(
                route.path, route.endpoint, name=route.name, dependencies=route.dependencies
            )
        # Where a router was included, its prefix and dependencies stay with what holds it.
        target = router if holder is app else holder
        target.routes.append(bound)
        if target is not router and hasattr(target, "_mark_routes_changed"):
            target._mark_routes_changed()
    app.include_router(router)


def _routes(holder: Any) -> Iterator[tuple[Any, Any]]:
    """An application's routes and those of the routers that it includes, each with what holds it."""
    for route in holder.routes:
        yield holder, route
        # FastAPI copied the routes of a router that is included; now it keeps the router.
        included = getattr(route, "original_router", None)
        if included is not None:
            yield from _routes(included)


def _is_method(endpoint: Any, cls: type) -> bool:
    """Whether it is defined in the class, or in one that it inherits from; perhaps no longer by its name."""
    name, module = getattr(endpoint, "__qualname__", ""), getattr(endpoint, "__module__", None)
    return any(
        module == base.__module__ and name.startswith(f"{base.__qualname__}.")
        for base in cls.__mro__
    )


def _resolved(function: Callable[..., Any]) -> inspect.Signature:
    """Return a signature without annotations that are text: in a replica their names may mean nothing."""
    signature = inspect.signature(function)
    try:
        hints = typing.get_type_hints(function, include_extras=True)
    except Exception:
        return signature  # of names that are defined later, or locally
    parameters = [
        one.replace(annotation=hints.get(one.name, one.annotation))
        for one in signature.parameters.values()
    ]
    returned = hints.get("return", signature.return_annotation)
    return signature.replace(parameters=parameters, return_annotation=returned)


def dumps(value: Any) -> bytes:
    """Pickled by value; parts of FastAPI and Starlette that do not pickle by themselves do here."""
    reducers: dict[Any, Any] = {}
    state = getattr(sys.modules.get("starlette.datastructures"), "State", None)
    if state is not None:
        reducers[state] = lambda one: (type(one), (one._state,))
    included = getattr(sys.modules.get("fastapi.routing"), "_IncludedRouter", None)
    if included is not None:  # it holds a lock
        reducers[included] = lambda one: (type(one), (one.original_router, one.include_context))
    table = collections.ChainMap(reducers, cloudpickle.Pickler.dispatch_table)
    kind = type("Pickler", (cloudpickle.Pickler,), {"dispatch_table": table})
    buffer = io.BytesIO()
    kind(buffer).dump(value)
    return buffer.getvalue()


class Lifespan:
    """The start and the end of an application, as ASGI tells it of them."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self._incoming: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._outgoing: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Raises ``RuntimeError`` with the application's words when it does not start."""
        self._task = asyncio.get_running_loop().create_task(self._run())
        await self._step("lifespan.startup")

    async def stop(self) -> None:
        """Tell it of its end and wait for it."""
        if self._task is not None and not self._task.done():
            await self._step("lifespan.shutdown")

    async def _step(self, kind: str) -> None:
        await self._incoming.put({"type": kind})
        answer = await self._outgoing.get()
        if answer is not None and answer["type"] == f"{kind}.failed":
            raise RuntimeError(f"The application failed at {kind}: {answer.get('message', '')}")

    async def _run(self) -> None:
        scope = {"type": "lifespan", "asgi": {"version": "3.0", "spec_version": "2.0"}, "state": {}}
        try:
            await self._app(scope, self._incoming.get, self._outgoing.put)
        except Exception:
            pass
        finally:
            await self._outgoing.put(None)
