"""The messages of the driver to the controller, and of the controller to its replicas and routers."""

from __future__ import annotations

import dataclasses
import hashlib
import pickle
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from heliostat.serve.deployment_config import DeploymentConfig
from heliostat.serve.options import (
    BackpressureConfig,
    LoggingConfig,
    RequestRouterConfig,
    of,
)

NAMESPACE = "serve"
CONTROLLER_NAME = "SERVE_CONTROLLER_ACTOR"
# The method in which a replica ends that was drained; the cause of its death names it.
LEAVE_METHOD = "leave"
# Modules that each process of Serve loads: it is forked from one that has them.
PRELOADED = [
    "heliostat.serve.replica.actor",
    "heliostat.core.aio.async_actor",
    "heliostat.core.calls.cross_language",
    "heliostat.core.runtime_context",
    "concurrent.futures.thread",
    "starlette.requests",
    "starlette.responses",
]
# Instead of a method of the deployment's: the request of an ingress that another replica passes on.
ANSWER_METHOD = "__serve_answer__"
# In the environment of a deployment's actor: application, deployment, name and version, as JSON.
ACTOR_VARIABLE = "RAY_SERVE_INTERNAL_DEPLOYMENT_ACTOR"


class DeploymentID(NamedTuple):
    """A deployment of an application."""

    app_name: str
    name: str

    @property
    def key(self) -> str:
        """The id as one word."""
        return f"{self.app_name}#{self.name}"

    def __str__(self) -> str:
        return f"Deployment(name='{self.name}', app='{self.app_name}')"


def deployment_actor_name(key: DeploymentID, version: str, name: str) -> str:
    """By which replicas of that version find an actor of their deployment."""
    return f"SERVE_DEPLOYMENT_ACTOR::{key.app_name}::{key.name}::{version}::{name}"


@dataclass(frozen=True)
class DeploymentSpec:
    """A deployment as it is to be."""

    name: str
    config: DeploymentConfig
    code: bytes  # the pickled class or function, and the arguments of its constructor
    code_version: str
    is_asgi: bool = False
    outbound: tuple[str, ...] = ()  # the deployments that it was bound to


@dataclass(frozen=True)
class AppSpec:
    """An application as it is to be."""

    name: str
    route_prefix: str | None
    ingress: str
    deployments: dict[str, DeploymentSpec]
    is_scaled_from_outside: bool = False  # a request says how many replicas there are to be


def scaled_from_outside(app: AppSpec, is_so: bool) -> AppSpec:
    """The application, whose replicas a request may count.

    Raises:
        ValueError: A deployment has an autoscaling configuration, which would count them, too.
    """
    own = [one.name for one in app.deployments.values() if one.config.autoscaling_config]
    if is_so and own:
        raise ValueError(
            f"`external_scaler_enabled` is set, but {', '.join(map(repr, own))} of {app.name!r} has an "
            "`autoscaling_config`. Leave one of the two out."
        )
    return dataclasses.replace(app, is_scaled_from_outside=is_so)


def with_logging(app: AppSpec, given: Any) -> AppSpec:
    """The application with that logging configuration where a deployment has none of its own."""
    if given is None:
        return app
    logging = of(LoggingConfig, given)
    deployments = {}
    for name, one in app.deployments.items():
        own = one.config.logging_config or logging
        config = dataclasses.replace(one.config, logging_config=own)
        deployments[name] = dataclasses.replace(one, config=config)
    return dataclasses.replace(app, deployments=deployments)


@dataclass
class ReplicaPlace:
    """A replica that takes requests."""

    id: str
    actor: Any
    address: str  # of its socket
    node: str = ""
    models: tuple[str, ...] = ()  # that it has loaded, where a router of the user's may ask
    stats: dict[str, Any] = field(default_factory=dict)  # what it has recorded for such a router
    host: str = ""  # of its node
    metadata: dict[str, Any] = field(default_factory=dict)  # what it said of itself when it began


class ReplicaLocation(NamedTuple):
    """The location of a replica: its node, its process and its log file."""

    node: str
    host: str
    pid: int
    worker: str
    log: str  # its file, from the folder of logs on
    ranks: tuple[int, int, int] | None  # of one that takes requests already
    actor: str = ""  # its actor's id


@dataclass
class Targets:
    """The replicas that a deployment's requests go to."""

    version: int
    is_there: bool = False
    failure: str | None = None
    max_ongoing: int = 5
    max_queued: int = -1
    backpressure: BackpressureConfig = field(default_factory=BackpressureConfig)
    is_counted: bool = False
    replicas: list[ReplicaPlace] = field(default_factory=list)
    routing: RequestRouterConfig | None = None  # of the user's own, where there is one


def renewed(app: AppSpec, number: int) -> AppSpec:
    """The spec for new replicas, except where the user's version says that they are the same."""
    deployments = {}
    for name, one in app.deployments.items():
        version = one.code_version
        if one.config.version is None:
            told = f"{version}#{number}".encode()
            version = hashlib.blake2b(told, digest_size=16).hexdigest()
        deployments[name] = dataclasses.replace(one, code_version=version)
    return dataclasses.replace(app, deployments=deployments)


def code_version(spec: DeploymentSpec) -> str:
    """Changes when replicas have to be started anew."""
    if spec.config.version is not None:
        return f"user:{spec.config.version}"
    config = spec.config
    parts = [spec.code, pickle.dumps(sorted(config.ray_actor_options.items()))]
    if config.placement_group_bundles is not None:
        group = (
            config.placement_group_bundles,
            config.placement_group_strategy,
            config.placement_group_bundle_label_selector,
        )
        parts.append(repr(group).encode())
    if config.gang_scheduling_config is not None:
        parts.append(repr(config.gang_scheduling_config).encode())
    for actor in config.deployment_actors or ():
        parts.append(pickle.dumps(dataclasses.astuple(actor)))
    return hashlib.blake2b(b"\0".join(parts), digest_size=16).hexdigest()
