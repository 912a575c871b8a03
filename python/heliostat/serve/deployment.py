"""Deployments, and the graphs that ``bind`` makes of them."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable
from typing import Any, cast

from heliostat.serve import asgi
from heliostat.serve.config import AutoscalingConfig, DeploymentConfig, of
from heliostat.serve.handle import DeploymentHandle
from heliostat.serve.specs import AppSpec, DeploymentSpec, code_version

__all__ = ["Application", "Deployment"]

UNSET: Any = cast(Any, object())

# Options that Ray has and this release does not act on.
_NOT_YET = (
    "placement_group_bundles",
    "placement_group_strategy",
    "placement_group_bundle_label_selector",
    "max_replicas_per_node",
    "backpressure_config",
    "logging_config",
    "request_router_config",
    "gang_scheduling_config",
    "deployment_actors",
    "rolling_update_percentage",
    "max_surge_percent",
)
_OPTIONS = {field.name for field in dataclasses.fields(DeploymentConfig)}


class Application:
    """A deployment with the arguments of its constructor, other applications among them."""

    def __init__(self, bound_deployment: Deployment) -> None:
        self._deployment = bound_deployment


class Deployment:
    """A class or function that can be served. Made by ``@serve.deployment``."""

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
        """Its name within an application."""
        return self._name

    @property
    def version(self) -> str | None:
        """What the user calls its version."""
        return self._config.version

    @property
    def func_or_class(self) -> Callable[..., Any]:
        """What is served."""
        return self._target

    @property
    def num_replicas(self) -> int:
        """How many replicas it begins with."""
        return self._config.num_replicas

    @property
    def user_config(self) -> Any:
        """What ``reconfigure`` is called with."""
        return self._config.user_config

    @property
    def max_ongoing_requests(self) -> int:
        """How many requests a replica has at a time."""
        return self._config.max_ongoing_requests

    @property
    def max_queued_requests(self) -> int:
        """How many requests wait for a replica; -1: any number."""
        return self._config.max_queued_requests

    @property
    def ray_actor_options(self) -> dict[str, Any]:
        """Options of the replicas' actors."""
        return self._config.ray_actor_options

    def bind(self, *args: Any, **kwargs: Any) -> Application:
        """With the arguments of the constructor; an application among them becomes a handle to it."""
        bound = copy.copy(self)
        bound._args, bound._kwargs = args, kwargs
        return Application(bound)

    def options(self, func_or_class: Any = None, **options: Any) -> Deployment:
        """A copy with other options, those of ``@serve.deployment``."""
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
    for name in _NOT_YET:
        if given.pop(name, None) is not None:
            raise NotImplementedError(f"The option `{name}` of deployments does not work yet.")
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
            raise ValueError(f"`{name}` in ray_actor_options is Serve's own business.")
    return dataclasses.replace(base, **given)


def build(app: Application, name: str, route_prefix: str | None) -> AppSpec:
    """The deployments of a graph; raises ``TypeError`` for what is no application."""
    if type(app) is not Application:
        what = "`.bind()` is missing" if isinstance(app, Deployment) else f"it is a {type(app)}"
        raise TypeError(
            f"serve.run takes an application, the result of `deployment.bind()`: {what}."
        )
    if route_prefix is not None and not route_prefix.startswith("/"):
        raise ValueError(f"The route_prefix {route_prefix!r} does not begin with '/'.")
    if route_prefix not in (None, "/") and route_prefix.endswith("/"):
        raise ValueError(f"The route_prefix {route_prefix!r} ends with '/'.")
    if route_prefix is not None and ("{" in route_prefix or "}" in route_prefix):
        raise ValueError(f"The route_prefix {route_prefix!r} may not contain wildcards.")
    found: dict[int, tuple[Application, DeploymentSpec]] = {}
    names: set[str] = set()

    def visit(one: Application) -> DeploymentHandle:
        if id(one) in found:
            return DeploymentHandle(found[id(one)][1].name, name)
        bound = one._deployment
        unique, number = bound._name, 1
        while unique in names:
            unique, number = f"{bound._name}_{number}", number + 1
        names.add(unique)
        spec = DeploymentSpec(unique, bound._config, b"", "")
        # The application is kept: an id names it only as long as it lives.
        found[id(one)] = one, spec
        args = swap(bound._args)
        kwargs = swap(bound._kwargs)
        spec.code = asgi.dumps((bound._target, args, kwargs))
        spec.code_version = code_version(spec)
        spec.is_asgi = hasattr(bound._target, "_serve_asgi_app")
        return DeploymentHandle(unique, name)

    def swap(value: Any) -> Any:
        if isinstance(value, Application):
            return visit(value)
        if isinstance(value, list | tuple) and type(value) in (list, tuple):
            return type(value)(map(swap, value))
        if type(value) is dict:
            return {key: swap(one) for key, one in value.items()}
        return value

    visit(app)
    specs = [spec for _, spec in found.values()]
    return AppSpec(name, route_prefix, specs[0].name, {spec.name: spec for spec in specs})
