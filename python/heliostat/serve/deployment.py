"""Deployments, and the graphs that ``bind`` makes of them."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable
from typing import Any, cast

from heliostat.serve import asgi
from heliostat.serve.deployment_config import DeploymentConfig
from heliostat.serve.exceptions import RayServeException
from heliostat.serve.handle import DeploymentHandle
from heliostat.serve.options import AutoscalingConfig, check_route_prefix, of
from heliostat.serve.specs import AppSpec, DeploymentSpec, code_version

__all__ = ["Application", "Deployment"]

UNSET: Any = cast(Any, object())

_OPTIONS = {field.name for field in dataclasses.fields(DeploymentConfig)}


class Application:
    """A deployment with the arguments of its constructor, other applications among them.

    Args:
        bound_deployment: The deployment with its arguments.

    Examples:
        >>> from ray import serve
        >>> @serve.deployment
        ... def double(x):
        ...     return 2 * x
        >>> @serve.deployment
        ... class Front:
        ...     def __init__(self, inner):
        ...         self.inner = inner
        ...     async def __call__(self, x):
        ...         return await self.inner.remote(x) + 1
        >>> app = Front.bind(double.bind())  # an application of two deployments
        >>> handle = serve.run(app, name="front", route_prefix=None)
        >>> handle.remote(10).result()
        21
        >>> serve.delete("front")
    """

    def __init__(self, bound_deployment: Deployment) -> None:
        self._deployment = bound_deployment


class Deployment:
    """A class or function that can be served. Made by ``@serve.deployment``.

    Args:
        target: The class or function.
        name: Its name, without ``#``.
        config: Its options.
        args: Positional arguments of the constructor.
        kwargs: Keyword arguments of the constructor.

    Raises:
        TypeError: The name is not a text.
        ValueError: The name is empty or has a ``#``.

    Examples:
        >>> from ray import serve
        >>> @serve.deployment
        ... class Adder:
        ...     def __init__(self, n):
        ...         self.n = n
        ...     def __call__(self, x):
        ...         return self.n + x
        >>> Adder.name, Adder.num_replicas
        ('Adder', 1)
        >>> two = Adder.options(name="two", num_replicas=2)
        >>> two.num_replicas
        2
    """

    def __init__(
        self,
        target: Callable[..., Any],
        name: str,
        config: DeploymentConfig,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> None:
        if not isinstance(name, str):
            raise TypeError("name must be a string.")
        if "#" in name or not name:
            raise ValueError(
                f"The name of a deployment has at least one character and no '#': {name!r}"
            )
        self._target = target
        self._name = name
        self._config = config
        self._args = args
        self._kwargs = kwargs or {}

    @property
    def name(self) -> str:
        """The deployment's name within an application."""
        return self._name

    @property
    def version(self) -> str | None:
        """The version that the user gave it."""
        return self._config.version

    @property
    def func_or_class(self) -> Callable[..., Any]:
        """The function or class that is served."""
        return self._target

    @property
    def num_replicas(self) -> int:
        """The number of replicas that the deployment begins with."""
        return self._config.num_replicas

    @property
    def user_config(self) -> Any:
        """The argument of ``reconfigure``."""
        return self._config.user_config

    @property
    def max_ongoing_requests(self) -> int:
        """The number of requests that a replica takes at a time."""
        return self._config.max_ongoing_requests

    @property
    def max_queued_requests(self) -> int:
        """The number of requests that may wait for a replica; -1: any number."""
        return self._config.max_queued_requests

    @property
    def backpressure_config(self) -> Any:
        """The answer to an HTTP client whose request is one more than may wait."""
        return self._config.backpressure()

    @property
    def ray_actor_options(self) -> dict[str, Any]:
        """Options of the replicas' actors."""
        return self._config.ray_actor_options

    @property
    def init_args(self) -> tuple[Any, ...]:
        """The arguments of the constructor, once it is bound."""
        return self._args

    @property
    def init_kwargs(self) -> dict[str, Any]:
        """The same by name."""
        return self._kwargs

    @property
    def logging_config(self) -> Any:
        """The logging of the replicas; ``None``: as the application says."""
        return self._config.logging_config

    def set_logging_config(self, logging_config: Any) -> None:
        """Have the replicas log so.

        Args:
            logging_config: A ``LoggingConfig``, or a dict of its fields.

        Raises:
            ValueError: A field cannot be so.
        """
        self._config = configured(self._config, {"logging_config": logging_config})

    def bind(self, *args: Any, **kwargs: Any) -> Application:
        """Give the constructor its arguments; what comes of it can be run.

        Args:
            *args: Positional arguments. An application among them becomes a handle to its deployment.
            **kwargs: Keyword arguments, likewise.

        Returns:
            The application.
        """
        bound = copy.copy(self)
        bound._args, bound._kwargs = args, kwargs
        return Application(bound)

    def options(self, func_or_class: Any = None, **options: Any) -> Deployment:
        """Return a copy with other options.

        Args:
            func_or_class: Another class or function. Default: the same.
            **options: Those of ``@serve.deployment``.

        Raises:
            TypeError: There is no such option.
            ValueError: An option cannot be so.
        """
        name = options.pop("name", UNSET)
        config = configured(self._config, options)
        return Deployment(
            func_or_class or self._target,
            self._name if name is UNSET else name,
            config,
            self._args,
            self._kwargs,
        )

    def __call__(self, *_args: Any, **_kwargs: Any) -> Any:
        raise RuntimeError(
            "A deployment cannot be called or constructed. Give `deployment.bind(...)` to `serve.run` and "
            "call the handle that it returns."
        )

    def __str__(self) -> str:
        return f"Deployment(name={self._name})"

    __repr__ = __str__


def configured(base: DeploymentConfig, options: dict[str, Any]) -> DeploymentConfig:
    """The configuration with those options changed."""
    given = {name: value for name, value in options.items() if value is not UNSET}
    unknown = set(given) - _OPTIONS
    if unknown:
        raise TypeError(f"Deployments have no option {sorted(unknown)[0]!r}.")
    number = given.get("num_replicas", UNSET)
    scaling = given.get("autoscaling_config", UNSET)
    if number == "auto":
        base_scaling = {"max_replicas": 100} if scaling in (UNSET, None) else scaling
        given["autoscaling_config"] = scaling = of(AutoscalingConfig, base_scaling)
        given["num_replicas"] = number = UNSET
    elif number is not UNSET and number is not None and scaling not in (UNSET, None):
        raise ValueError("Give `num_replicas` or `autoscaling_config`, not both.")
    if scaling not in (UNSET, None):
        given["autoscaling_config"] = scaling = of(AutoscalingConfig, scaling)
        first = scaling.initial_replicas
        given["num_replicas"] = scaling.min_replicas if first is None else first
    elif number is None or number is UNSET:
        given.pop("num_replicas", None)
    elif not isinstance(number, int) or number < 0:
        raise ValueError(f"num_replicas must be a number from 0 on or 'auto', not {number!r}.")
    elif number == 0:
        raise ValueError("num_replicas is expected to larger than 0")
    else:
        given["autoscaling_config"] = None
    if given.get("ray_actor_options", UNSET) is None:
        given["ray_actor_options"] = {}
    for name in ("placement_group", "name", "namespace", "lifetime", "max_restarts"):
        if name in (given.get("ray_actor_options") or {}):
            raise ValueError(f"ray_actor_options must not contain `{name}`; Serve sets it.")
    return dataclasses.replace(base, **given)


# A deployment of a graph: its options, and what is called with what.
Part = tuple[DeploymentSpec, Callable[..., Any], tuple[Any, ...], dict[str, Any]]


def build(app: Application, name: str, route_prefix: str | None) -> AppSpec:
    """The deployments of a graph.

    Raises ``TypeError`` where ``app`` is none, ``RayServeException`` if two of them want its requests.
    """
    check_route_prefix(route_prefix)
    parts = graph(app, lambda deployment: DeploymentHandle(deployment, name))
    specs = [_complete(*part) for part in parts]
    ingresses = [spec.name for spec in specs if spec.is_asgi]
    if len(ingresses) > 1:
        raise RayServeException(
            f"The application {name!r} has several deployments with @serve.ingress: {', '.join(ingresses)}. "
            "One of them answers its HTTP requests; give the others methods and call those by their handles."
        )
    return AppSpec(name, route_prefix, specs[0].name, {spec.name: spec for spec in specs})


def _complete(spec: DeploymentSpec, target: Any, args: Any, kwargs: Any) -> DeploymentSpec:
    """The specification with its code, and what follows from that."""
    code, is_asgi = _pickled(spec.name, target, args, kwargs), hasattr(target, "_serve_asgi_app")
    spec = dataclasses.replace(spec, code=code, is_asgi=is_asgi)
    return dataclasses.replace(spec, code_version=code_version(spec))


def _pickled(name: str, target: Any, args: Any, kwargs: Any) -> bytes:
    """Raises ``TypeError`` that says which of the two cannot be serialized."""
    try:
        return asgi.dumps((target, args, kwargs))
    except Exception as error:
        what = "code"
        try:
            asgi.dumps(target)
        except Exception:
            pass
        else:
            what = "arguments"
        raise TypeError(
            f"The {what} of the deployment {name!r} cannot be serialized: {error}. Make what cannot be in "
            "the constructor. `ray.util.inspect_serializability` finds it."
        ) from error


def graph(app: Application, handle_of: Callable[[str], DeploymentHandle]) -> list[Part]:
    """The deployments of a graph, the first one first; applications among arguments become handles."""
    if type(app) is not Application:
        what = "`.bind()` is missing" if isinstance(app, Deployment) else f"it is a {type(app)}"
        raise TypeError(
            f"serve.run takes an application, the result of `deployment.bind()`: {what}."
        )
    # The application is kept: an id names it only as long as it lives.
    found: dict[int, tuple[Application, str]] = {}
    parts: dict[str, Part | None] = {}
    within: list[list[str]] = []  # what those that are looked at have among their arguments

    def visit(one: Application) -> DeploymentHandle:
        if id(one) in found:
            return handle_of(found[id(one)][1])
        bound = one._deployment
        unique, number = bound._name, 1
        while unique in parts:
            unique, number = f"{bound._name}_{number}", number + 1
        found[id(one)] = one, unique
        parts[unique] = None  # its place in the order
        within.append([])
        args, kwargs = swap(bound._args), swap(bound._kwargs)
        outbound = tuple(dict.fromkeys(within.pop()))
        spec = DeploymentSpec(unique, bound._config, b"", "", outbound=outbound)
        parts[unique] = spec, bound._target, args, kwargs
        return handle_of(unique)

    def swap(value: Any) -> Any:
        if isinstance(value, Application):
            handle = visit(value)
            within[-1].append(found[id(value)][1])
            return handle
        if isinstance(value, list | tuple) and type(value) in (list, tuple):
            return type(value)(map(swap, value))
        if type(value) is dict:
            return {key: swap(one) for key, one in value.items()}
        return value

    visit(app)
    return [part for part in parts.values() if part is not None]
