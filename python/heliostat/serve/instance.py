"""The answer of ``GET /api/serve/applications/``, as Pydantic models under Ray's names."""

from __future__ import annotations

from enum import Enum
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt

from heliostat.serve.controller.health import statistics
from heliostat.serve.declaration import (
    DeploymentSchema,
    HTTPOptionsSchema,
    ServeApplicationSchema,
    gRPCOptionsSchema,
)
from heliostat.serve.options import ProxyLocation
from heliostat.serve.schema import (
    ApplicationStatus,
    DeploymentStatus,
    ProxyStatus,
    ReplicaState,
    ServeStatus,
    status_of,
)

__all__ = [
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
]


class APIType(str, Enum):
    """The way in which an application was deployed."""

    UNKNOWN = "unknown"
    IMPERATIVE = "imperative"
    DECLARATIVE = "declarative"

    @classmethod
    def get_valid_user_values(cls) -> list[str]:
        """Return the values that users may ask for."""
        return [cls.IMPERATIVE.value, cls.DECLARATIVE.value]


class DeploymentStatusTrigger(str, Enum):
    """The event that has led to a deployment's state."""

    UNSPECIFIED = "UNSPECIFIED"
    CONFIG_UPDATE_STARTED = "CONFIG_UPDATE_STARTED"
    CONFIG_UPDATE_COMPLETED = "CONFIG_UPDATE_COMPLETED"
    UPSCALE_COMPLETED = "UPSCALE_COMPLETED"
    DOWNSCALE_COMPLETED = "DOWNSCALE_COMPLETED"
    AUTOSCALING = "AUTOSCALING"
    REPLICA_STARTUP_FAILED = "REPLICA_STARTUP_FAILED"
    DEPLOYMENT_ACTOR_FAILED = "DEPLOYMENT_ACTOR_FAILED"
    HEALTH_CHECK_FAILED = "HEALTH_CHECK_FAILED"
    INTERNAL_ERROR = "INTERNAL_ERROR"
    DELETING = "DELETING"


class _Frozen(BaseModel):  # type: ignore[misc] # without types
    model_config: ClassVar[Any] = ConfigDict(frozen=True)


class _Closed(BaseModel):  # type: ignore[misc] # without types
    model_config: ClassVar[Any] = ConfigDict(extra="forbid", frozen=True)


class ScaleDeploymentRequest(BaseModel):  # type: ignore[misc] # without types
    """The body of `POST …/deployments/{deployment}/scale`: how many replicas there are to be."""

    target_num_replicas: NonNegativeInt


class ServeActorDetails(_Frozen):
    """An actor of Serve's: where it is, and its file, from the session's folder of logs on."""

    node_id: str | None = None
    node_ip: str | None = None
    node_instance_id: str | None = None
    actor_id: str | None = None
    actor_name: str | None = None
    worker_id: str | None = None
    log_file_path: str | None = None


class ReplicaDetails(ServeActorDetails):
    """A replica; ``start_time_s`` is Unix time."""

    replica_id: str
    state: ReplicaState
    pid: int | None = None
    start_time_s: float


class ProxyDetails(ServeActorDetails):
    """An HTTP server."""

    status: ProxyStatus


class AutoscalingMetricsHealth(str, Enum):
    """Whether the controller hears of the load in time."""

    HEALTHY = "healthy"
    DELAYED = "delayed"
    UNAVAILABLE = "unavailable"


class AutoscalingStatus(str, Enum):
    """The present and wanted number of a deployment's replicas."""

    UPSCALING = "UPSCALING"
    DOWNSCALING = "DOWNSCALING"
    STABLE = "STABLE"


class ScalingDecision(BaseModel):  # type: ignore[misc] # without types
    """A change of the number of replicas by a policy; ``timestamp_s`` is Unix time."""

    timestamp_s: float
    reason: str
    prev_num_replicas: NonNegativeInt
    curr_num_replicas: NonNegativeInt
    policy: str | None = None


class DeploymentAutoscalingDetail(BaseModel):  # type: ignore[misc] # without types
    """The decisions of autoscaling about a deployment."""

    scaling_status: AutoscalingStatus
    decisions: list[ScalingDecision] = Field(default_factory=list)
    metrics: dict[str, Any] | None = None
    metrics_health: AutoscalingMetricsHealth = AutoscalingMetricsHealth.HEALTHY
    errors: list[str] = Field(default_factory=list)


class DeploymentNode(BaseModel):  # type: ignore[misc] # without types
    """A deployment, and those of which it has handles: each by ``name`` and ``app_name``."""

    name: str
    app_name: str
    outbound_deployments: list[dict[str, Any]] = Field(default_factory=list)
    is_ingress: bool = False


class DeploymentTopology(BaseModel):  # type: ignore[misc] # without types
    """The handles between deployments of an application."""

    app_name: str
    nodes: dict[str, DeploymentNode]
    ingress_deployment: str | None = None


class DurationStats(BaseModel):  # type: ignore[misc] # without types
    """Statistics of the last of some durations; the fields' names have the unit."""

    mean: float = 0.0
    std: float = 0.0
    min: float = 0.0
    max: float = 0.0

    @classmethod
    def from_values(cls, values: list[float]) -> DurationStats:
        """The statistics of some values; zeros where there are none."""
        return cls(**statistics(values))


class ControllerHealthMetrics(BaseModel):  # type: ignore[misc] # without types
    """Health of Serve's controller: times in seconds (Unix time where they are none of a duration) or, where
    the name says so, milliseconds.

    A "control loop" is one time that the controller has acted on what it heard. Statistics of work that it
    does not do are zeros.
    """

    timestamp: float = 0.0
    controller_start_time: float = 0.0
    uptime_s: float = 0.0
    last_control_loop_time: float = 0.0
    num_control_loops: int = 0
    loop_duration_s: DurationStats | None = None
    loops_per_second: float = 0.0
    last_sleep_duration_s: float = 0.0
    expected_sleep_duration_s: float = 0.0
    event_loop_delay_s: float = 0.0
    num_asyncio_tasks: int = 0
    handle_ingest_duration_ms: DurationStats | None = None
    replica_ingest_duration_ms: DurationStats | None = None
    metrics_decompress_duration_ms: DurationStats | None = None
    columnar_decode_duration_ms: DurationStats | None = None
    handle_reports_received: int = 0
    replica_reports_received: int = 0
    ingest_reports_received: int = 0
    ingest_cpu_fraction: float = 0.0
    deployment_state_update_duration_s: DurationStats | None = None
    application_state_update_duration_s: DurationStats | None = None
    proxy_state_update_duration_s: DurationStats | None = None
    node_update_duration_s: DurationStats | None = None
    handle_metrics_delay_ms: DurationStats | None = None
    replica_metrics_delay_ms: DurationStats | None = None
    process_memory_mb: float = 0.0


class DeploymentDetails(_Closed):
    """A deployment, with the options that it has now."""

    name: str
    status: DeploymentStatus
    status_trigger: DeploymentStatusTrigger
    message: str
    deployment_config: DeploymentSchema
    target_num_replicas: NonNegativeInt
    required_resources: dict[str, float]
    replicas: list[ReplicaDetails]
    recent_dead_replicas: list[ReplicaDetails] = Field(default_factory=list)
    autoscaling_detail: DeploymentAutoscalingDetail | None = None


class ApplicationDetails(_Closed):
    """An application; ``deployed_app_config`` is what was given of its configuration."""

    name: str
    route_prefix: str | None
    docs_path: str | None
    status: ApplicationStatus
    message: str
    last_deployed_time_s: float
    deployed_app_config: ServeApplicationSchema | None = None
    source: APIType
    deployments: dict[str, DeploymentDetails]
    external_scaler_enabled: bool
    deployment_topology: DeploymentTopology | None = None


class Target(_Frozen):
    """A server that requests may be sent to."""

    ip: str
    port: int
    instance_id: str
    name: str


class TargetGroup(_Frozen):
    """The servers that requests of a prefix may be sent to."""

    targets: list[Target]
    route_prefix: str
    protocol: str
    app_name: str = ""
    ingress_request_router_targets: list[Target] = Field(default_factory=list)
    ingress_deployment_name: str = ""


class ServeInstanceDetails(BaseModel):  # type: ignore[misc] # without types
    """All of it."""

    model_config: ClassVar[Any] = ConfigDict(extra="forbid")

    controller_info: ServeActorDetails = ServeActorDetails()
    proxy_location: ProxyLocation | None = None
    http_options: HTTPOptionsSchema | None = None
    grpc_options: gRPCOptionsSchema | None = None
    proxies: dict[str, ProxyDetails]
    applications: dict[str, ApplicationDetails]
    target_capacity: float | None = Field(None, ge=0, le=100)
    target_groups: list[TargetGroup] = Field(default_factory=list)
    controller_health_metrics: ControllerHealthMetrics = Field(
        default_factory=ControllerHealthMetrics
    )
    restores_unset_config_options: bool = False

    @staticmethod
    def get_empty_schema_dict() -> dict[str, Any]:
        """The document where Serve does not run."""
        return {
            "controller_info": {},
            "proxies": {},
            "applications": {},
            "target_capacity": None,
        }

    def _get_status(self) -> ServeStatus:
        return status_of(self.model_dump(mode="json"))
