"""Options of deployments and of the HTTP server."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeVar

__all__ = ["AutoscalingConfig", "HTTPOptions", "ProxyLocation"]

T = TypeVar("T")


class ProxyLocation(str, Enum):
    """Where HTTP servers run."""

    Disabled = "Disabled"
    HeadOnly = "HeadOnly"
    EveryNode = "EveryNode"


@dataclass
class HTTPOptions:
    """Options of the HTTP server.

    ``request_timeout_s``: seconds from a request to its answer, ``None``: any; ``keep_alive_timeout_s``:
    seconds that a connection may be idle. TLS, ``root_path`` and middlewares raise ``NotImplementedError``.
    """

    host: str | None = "127.0.0.1"
    port: int = 8000
    middlewares: list[Any] = dataclasses.field(default_factory=list)
    location: ProxyLocation | str | None = None
    num_cpus: int = 0
    root_url: str = ""
    root_path: str = ""
    request_timeout_s: float | None = None
    keep_alive_timeout_s: int = 90
    ssl_keyfile: str | None = None
    ssl_certfile: str | None = None
    ssl_keyfile_password: str | None = None
    ssl_ca_certs: str | None = None

    def __post_init__(self) -> None:
        for name in ("middlewares", "num_cpus"):
            if getattr(self, name):
                raise ValueError(
                    f"`{name}` of HTTPOptions has been removed from Serve. "
                    "Middlewares belong to the application of @serve.ingress."
                )
        for name in ("root_url", "root_path", "ssl_keyfile", "ssl_certfile", "ssl_ca_certs"):
            if getattr(self, name):
                raise NotImplementedError(
                    f"`{name}` of HTTPOptions does not work yet. Put a server in front that does this."
                )


@dataclass
class AutoscalingConfig:
    """How the number of replicas follows the load; times in seconds."""

    min_replicas: int = 1
    initial_replicas: int | None = None
    max_replicas: int = 1
    target_ongoing_requests: float = 2.0
    metrics_interval_s: float = 10.0
    look_back_period_s: float = 30.0
    smoothing_factor: float = 1.0
    upscale_smoothing_factor: float | None = None
    downscale_smoothing_factor: float | None = None
    upscaling_factor: float | None = None
    downscaling_factor: float | None = None
    downscale_delay_s: float = 600.0
    downscale_to_zero_delay_s: float | None = None
    upscale_delay_s: float = 30.0
    aggregation_function: str = "mean"
    policy: Any = None

    def __post_init__(self) -> None:
        if self.min_replicas < 0 or self.max_replicas < 1:
            raise ValueError("min_replicas must be at least 0 and max_replicas at least 1.")
        if self.max_replicas < self.min_replicas:
            raise ValueError(
                f"max_replicas ({self.max_replicas}) must be at least min_replicas ({self.min_replicas})."
            )
        first = self.initial_replicas
        if first is not None and not self.min_replicas <= first <= self.max_replicas:
            raise ValueError("initial_replicas must be between min_replicas and max_replicas.")
        if self.target_ongoing_requests <= 0:
            raise ValueError("target_ongoing_requests must be greater than 0.")
        if self.policy is not None:
            raise NotImplementedError("`policy` of AutoscalingConfig does not work yet.")
        if str(self.aggregation_function) != "mean":
            raise NotImplementedError("`aggregation_function` other than 'mean' does not work yet.")


def of(kind: type[T], given: Any) -> T:
    """An options object from itself, a mapping or ``None``."""
    if given is None:
        return kind()
    if isinstance(given, kind):
        return given
    if not isinstance(given, Mapping):
        raise TypeError(f"Expected a dict or a {kind.__name__}, not {type(given).__name__}.")
    names = {field.name for field in dataclasses.fields(kind)}  # type: ignore[arg-type] # all are
    unknown = set(given) - names
    if unknown:
        raise ValueError(f"{kind.__name__} has no {sorted(unknown)}; it has {sorted(names)}.")
    return kind(**given)


@dataclass
class DeploymentConfig:
    """What a deployment is run with, defaults filled in."""

    num_replicas: int = 1
    ray_actor_options: dict[str, Any] = dataclasses.field(default_factory=dict)
    max_ongoing_requests: int = 5
    max_queued_requests: int = -1
    autoscaling_config: AutoscalingConfig | None = None
    user_config: Any = None
    graceful_shutdown_wait_loop_s: float = 2.0
    graceful_shutdown_timeout_s: float = 20.0
    health_check_period_s: float = 10.0
    health_check_timeout_s: float = 30.0
    max_constructor_retry_count: int = 20
    version: str | None = None

    def __post_init__(self) -> None:
        most: object = self.max_ongoing_requests
        if not isinstance(most, int) or most < 1:
            raise ValueError("`max_ongoing_requests` must be at least 1.")
        if self.max_queued_requests < -1:
            raise ValueError("`max_queued_requests` must be at least -1 (any number).")
        for name in (
            "graceful_shutdown_wait_loop_s",
            "graceful_shutdown_timeout_s",
            "health_check_period_s",
            "health_check_timeout_s",
        ):
            if getattr(self, name) < 0:
                raise ValueError(f"`{name}` must not be negative.")
