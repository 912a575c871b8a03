"""Options of deployments and of the HTTP server, as users write them: Pydantic models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from heliostat.core.platform.extras import part
from heliostat.serve.options import (
    AggregationFunction,
    AutoscalingContext,
    GangPlacementStrategy,
    GangRuntimeFailurePolicy,
    ProxyLocation,
)
from heliostat.serve.specs import DeploymentID  # noqa: F401 # policies of applications name it

if TYPE_CHECKING:
    from heliostat.serve.models import (
        AutoscalingConfig,
        AutoscalingPolicy,
        BackpressureConfig,
        ControllerOptions,
        DeploymentActorConfig,
        GangSchedulingConfig,
        HTTPOptions,
        RequestRouterConfig,
        gRPCOptions,
    )

__all__ = [
    "AggregationFunction",
    "AutoscalingConfig",
    "AutoscalingContext",
    "AutoscalingPolicy",
    "BackpressureConfig",
    "ControllerOptions",
    "DeploymentActorConfig",
    "GangPlacementStrategy",
    "GangRuntimeFailurePolicy",
    "GangSchedulingConfig",
    "HTTPOptions",
    "ProxyLocation",
    "RequestRouterConfig",
    "gRPCOptions",
]

# Names of `heliostat.serve.models`, which loads Pydantic: replicas and handles do without.
MODELS = (
    "AutoscalingConfig",
    "AutoscalingPolicy",
    "BackpressureConfig",
    "ControllerOptions",
    "DeploymentActorConfig",
    "GangSchedulingConfig",
    "HTTPOptions",
    "RequestRouterConfig",
    "gRPCOptions",
)


def __getattr__(name: str) -> Any:
    if name in MODELS:
        models = part("heliostat.serve.models", f"ray.serve.config.{name}", "serve")
        return getattr(models, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
