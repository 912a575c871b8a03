"""The answer of ``serve.status``."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

from heliostat.core.platform.extras import part

if TYPE_CHECKING:
    from heliostat.serve.models import LoggingConfig, TracingConfig

__all__ = [
    "ApplicationStatus",
    "ApplicationStatusOverview",
    "DeploymentStatus",
    "DeploymentStatusOverview",
    "EncodingType",
    "LoggingConfig",
    "ProxyStatus",
    "ReplicaState",
    "ServeStatus",
    "TracingConfig",
]


class EncodingType(str, Enum):
    """The format of the replicas' logs.

    Examples:
        >>> from ray import serve
        >>> from ray.serve.schema import EncodingType, LoggingConfig
        >>> @serve.deployment(logging_config=LoggingConfig(encoding=EncodingType.JSON))
        ... def hello(name):
        ...     return f"Hello {name}"
    """

    TEXT = "TEXT"
    JSON = "JSON"


class ProxyStatus(str, Enum):
    """The state of an HTTP server.

    Examples:
        >>> from ray import serve
        >>> from ray.serve.schema import ProxyStatus
        >>> def is_reachable():
        ...     return ProxyStatus.HEALTHY in serve.status().proxies.values()
        >>> is_reachable()  # this Serve has no HTTP server
        False
    """

    STARTING = "STARTING"
    HEALTHY = "HEALTHY"
    UNHEALTHY = "UNHEALTHY"
    DRAINING = "DRAINING"
    DRAINED = "DRAINED"


class ApplicationStatus(str, Enum):
    """The state of an application.

    Examples:
        >>> from ray import serve
        >>> from ray.serve.schema import ApplicationStatus
        >>> @serve.deployment
        ... def hello(name):
        ...     return f"Hello {name}"
        >>> _ = serve.run(hello.bind(), name="hello", route_prefix=None)
        >>> serve.status().applications["hello"].status == ApplicationStatus.RUNNING
        True
        >>> serve.delete("hello")
    """

    NOT_STARTED = "NOT_STARTED"
    DEPLOYING = "DEPLOYING"
    DEPLOY_FAILED = "DEPLOY_FAILED"
    RUNNING = "RUNNING"
    UNHEALTHY = "UNHEALTHY"
    DELETING = "DELETING"


class DeploymentStatus(str, Enum):
    """The state of a deployment.

    Examples:
        >>> from ray import serve
        >>> from ray.serve.schema import DeploymentStatus
        >>> def unhealthy():
        ...     return [
        ...         name
        ...         for app in serve.status().applications.values()
        ...         for name, deployment in app.deployments.items()
        ...         if deployment.status != DeploymentStatus.HEALTHY
        ...     ]
        >>> unhealthy()
        []
    """

    UPDATING = "UPDATING"
    HEALTHY = "HEALTHY"
    UNHEALTHY = "UNHEALTHY"
    DEPLOY_FAILED = "DEPLOY_FAILED"
    UPSCALING = "UPSCALING"
    DOWNSCALING = "DOWNSCALING"


class ReplicaState(str, Enum):
    """The state of a replica.

    Examples:
        >>> from ray import serve
        >>> from ray.serve.schema import ReplicaState
        >>> def running(app, deployment):
        ...     states = serve.status().applications[app].deployments[deployment].replica_states
        ...     return states.get(ReplicaState.RUNNING, 0)
        >>> ReplicaState("STARTING") is ReplicaState.STARTING
        True
    """

    STARTING = "STARTING"
    UPDATING = "UPDATING"
    RECOVERING = "RECOVERING"
    RUNNING = "RUNNING"
    STOPPING = "STOPPING"
    STOPPED = "STOPPED"


@dataclass
class DeploymentStatusOverview:
    """The state of a deployment.

    Attributes:
        status: The state.
        status_trigger: What brought it there.
        replica_states: How many replicas are in which state.
        message: Why, for people.

    Examples:
        >>> from ray import serve
        >>> @serve.deployment(num_replicas=2, ray_actor_options={"num_cpus": 0.1})
        ... def hello(name):
        ...     return f"Hello {name}"
        >>> _ = serve.run(hello.bind(), name="two", route_prefix=None)
        >>> overview = serve.status().applications["two"].deployments["hello"]
        >>> overview.status.value, overview.replica_states[serve.schema.ReplicaState.RUNNING]
        ('HEALTHY', 2)
        >>> serve.delete("two")
    """

    status: DeploymentStatus
    status_trigger: str
    replica_states: dict[ReplicaState, int]
    message: str


@dataclass
class ApplicationStatusOverview:
    """The state of an application.

    Attributes:
        status: The state.
        message: Why, for people.
        last_deployed_time_s: When it was deployed last, as Unix time.
        deployments: The state of its deployments, by name.

    Examples:
        >>> from ray import serve
        >>> @serve.deployment
        ... def hello(name):
        ...     return f"Hello {name}"
        >>> _ = serve.run(hello.bind(), name="greeter", route_prefix=None)
        >>> overview = serve.status().applications["greeter"]
        >>> overview.status.value, list(overview.deployments)
        ('RUNNING', ['hello'])
        >>> serve.delete("greeter")
    """

    status: ApplicationStatus
    message: str
    last_deployed_time_s: float
    deployments: dict[str, DeploymentStatusOverview]


@dataclass
class ServeStatus:
    """The state of Serve.

    Attributes:
        proxies: That of the HTTP servers, by node.
        applications: That of the applications, by name.
        target_capacity: What percentage of replicas a configuration file asks for, if it does.

    Examples:
        >>> from ray import serve
        >>> status = serve.status()
        >>> sorted(status.applications)
        []
    """

    proxies: dict[str, ProxyStatus] = field(default_factory=dict)
    applications: dict[str, ApplicationStatusOverview] = field(default_factory=dict)
    target_capacity: float | None = None


def status_of(details: dict[str, Any]) -> ServeStatus:
    """The state that ``GET /api/serve/applications/`` tells of."""
    apps = {}
    for name, app in details["applications"].items():
        rows = {}
        for key, row in app["deployments"].items():
            states: dict[ReplicaState, int] = {}
            for replica in row["replicas"]:
                state = ReplicaState(replica["state"])
                states[state] = states.get(state, 0) + 1
            rows[key] = DeploymentStatusOverview(
                DeploymentStatus(row["status"]), row["status_trigger"], states, row["message"]
            )
        apps[name] = ApplicationStatusOverview(
            ApplicationStatus(app["status"]), app["message"], app["last_deployed_time_s"], rows
        )
    proxies = {node: ProxyStatus(row["status"]) for node, row in details["proxies"].items()}
    return ServeStatus(proxies, apps, details["target_capacity"])


# Names of `heliostat.serve.declaration`, which needs Pydantic.
_DECLARED = (
    "DeploymentSchema",
    "HTTPOptionsSchema",
    "RayActorOptionsSchema",
    "ServeApplicationSchema",
    "ServeDeploySchema",
    "gRPCOptionsSchema",
)


# Names of `heliostat.serve.instance`, which needs Pydantic, too.
_INSTANCE = (
    "APIType",
    "ApplicationDetails",
    "AutoscalingMetricsHealth",
    "AutoscalingStatus",
    "ControllerHealthMetrics",
    "DeploymentAutoscalingDetail",
    "DeploymentDetails",
    "DeploymentNode",
    "DeploymentStatusTrigger",
    "DeploymentTopology",
    "DurationStats",
    "ProxyDetails",
    "ReplicaDetails",
    "ScaleDeploymentRequest",
    "ScalingDecision",
    "ServeActorDetails",
    "ServeInstanceDetails",
    "Target",
    "TargetGroup",
)
_MODELS = (
    "AutoscalingConfig",
    "AutoscalingPolicy",
    "BackpressureConfig",
    "ControllerOptions",
    "DeploymentActorConfig",
    "GangSchedulingConfig",
    "LoggingConfig",
    "ReplicaRank",
    "RequestRouterConfig",
    "TracingConfig",
)
_TASKS = ("CeleryAdapterConfig", "TaskProcessorAdapter", "TaskProcessorConfig", "TaskResult")


# Modules below `heliostat.serve` with models, which need Pydantic: the names in each.
_PARTS = {"models": _MODELS, "tasks": _TASKS, "instance": _INSTANCE, "declaration": _DECLARED}


def __getattr__(name: str) -> Any:
    if name == "ProxyLocation":
        from heliostat.serve.options import ProxyLocation

        return ProxyLocation
    for module, names in _PARTS.items():
        if name in names:
            whose = part(f"heliostat.serve.{module}", f"ray.serve.schema.{name}", "serve")
            return getattr(whose, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
