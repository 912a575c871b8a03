"""Options as Pydantic models, which is what users see: ``model_dump``, ``model_validate`` and the like.

The rest of Serve works with the classes of the same names in ``options``, which need no library. A model has
the fields of its class, and names those that Pydantic checks otherwise. It checks itself by making one, and
:func:`heliostat.serve.options.of` does the same where options come in.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable
from typing import Annotated, Any, ClassVar, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    PrivateAttr,
    create_model,
    field_validator,
    model_validator,
)

from heliostat import cloudpickle
from heliostat.serve import options, servicers
from heliostat.serve.options import (
    AggregationFunction,
    ProxyLocation,
)
from heliostat.util.model_fields import model_fields

__all__ = [
    "AutoscalingConfig",
    "AutoscalingPolicy",
    "BackpressureConfig",
    "ControllerOptions",
    "DeploymentActorConfig",
    "GangSchedulingConfig",
    "HTTPOptions",
    "LoggingConfig",
    "ReplicaRank",
    "RequestRouterConfig",
    "TracingConfig",
    "gRPCOptions",
]

_INTERVAL_S = 10.0  # the default of a deprecated option


class _Options(BaseModel):
    """Options that are one of the classes in ``options``, too."""

    _kind: ClassVar[type[Any]]

    def _given(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in type(self).model_fields}

    def as_options(self) -> Any:
        """The same as one of the classes in ``options``.

        Raises:
            ValueError: They make no sense.
        """
        given = self._given()
        if given.get("target_ongoing_requests", 0) is None:
            del given["target_ongoing_requests"]  # the default
        return self._kind(**given)

    @model_validator(mode="after")
    def _is_sensible(self) -> Any:
        self.as_options()
        return self


def _fields_of(kind: type[Any], *without: str, **other: Any) -> Any:
    """A model with the fields of a class in ``options``; ``other``: those that differ."""
    fields = model_fields(kind, **other)
    for name in without:
        del fields[name]
    made = create_model(f"_{kind.__name__}Fields", __base__=_Options, **fields)
    made._kind = kind
    return made


_AutoscalingPolicyFields: Any = _fields_of(options.AutoscalingPolicy)


class AutoscalingPolicy(_AutoscalingPolicyFields):
    """The rule for the number of a deployment's replicas.

    The policy is called with an ``AutoscalingContext`` several times a second, in the process of Serve's
    controller, and returns a number and a dict that is ``policy_state`` the next time. A class is made once.
    The factors, delays and bounds of the ``AutoscalingConfig`` apply to its number.

    Attributes:
        policy_function: A function, a class, or the import path of one. Default: by the number of
            requests.
        policy_kwargs: Arguments of the class.

    Raises:
        ValueError: It cannot be imported, or ``policy_kwargs`` is not JSON.

    Examples:
        >>> from ray.serve.config import AutoscalingPolicy
        >>> def one_for_ten(context):
        ...     return max(1, context.total_num_requests // 10), {}
        >>> policy = AutoscalingPolicy(policy_function=one_for_ten)

        ``AutoscalingConfig(max_replicas=4, policy=policy)`` has a deployment follow it.
    """

    _pickled: bytes = PrivateAttr(default=b"")

    @model_validator(mode="after")
    def _is_sensible(self) -> Any:
        made = options.AutoscalingPolicy(**self._given())
        self.policy_function, self._pickled = made.policy_function, made._pickled
        return self

    def as_options(self) -> options.AutoscalingPolicy:
        """The same as one of the classes in ``options``."""
        return options.AutoscalingPolicy(self.policy_function, self.policy_kwargs, self._pickled)

    def is_default_policy_function(self) -> bool:
        """Whether the number of requests alone decides."""
        return self.as_options().is_default_policy_function()

    def get_policy(self) -> Callable[..., Any]:
        """The function or class."""
        return self.as_options().get_policy()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AutoscalingPolicy) and self.model_dump() == other.model_dump()

    __hash__ = None  # type: ignore[assignment] # it can change


_AutoscalingConfigFields: Any = _fields_of(
    options.AutoscalingConfig,
    min_replicas=NonNegativeInt,
    initial_replicas=NonNegativeInt | None,
    max_replicas=PositiveInt,
    target_ongoing_requests=(PositiveFloat | None, 2),
    metrics_interval_s=PositiveFloat,
    look_back_period_s=PositiveFloat,
    smoothing_factor=PositiveFloat,
    upscale_smoothing_factor=PositiveFloat | None,
    downscale_smoothing_factor=PositiveFloat | None,
    upscaling_factor=PositiveFloat | None,
    downscaling_factor=PositiveFloat | None,
    downscale_delay_s=NonNegativeFloat,
    downscale_to_zero_delay_s=NonNegativeFloat | None,
    upscale_delay_s=NonNegativeFloat,
    aggregation_function=str | AggregationFunction,
    policy=(AutoscalingPolicy, Field(default_factory=AutoscalingPolicy)),
)


class AutoscalingConfig(_AutoscalingConfigFields):
    """Settings by which the number of replicas follows the load.

    Attributes:
        min_replicas: How many at least; 0: none without requests. Default 1.
        initial_replicas: How many at first. Default: ``min_replicas``.
        max_replicas: How many at most. Default 1; 100 with ``num_replicas="auto"``.
        target_ongoing_requests: Requests that a replica is to have at a time. Default 2.
        metrics_interval_s: Seconds between measurements.
        look_back_period_s: Seconds over which requests are averaged. Default 30.
        smoothing_factor: Deprecated: how much of a change is made at once.
        upscale_smoothing_factor: Deprecated name of ``upscaling_factor``.
        downscale_smoothing_factor: Deprecated name of ``downscaling_factor``.
        upscaling_factor: How much of a rise is made at once. Default 1.
        downscaling_factor: How much of a fall is made at once. Default 1.
        downscale_delay_s: Seconds that less must be needed before replicas stop. Default 600.
        downscale_to_zero_delay_s: The same before the last one stops. Default: ``downscale_delay_s``.
        upscale_delay_s: Seconds that more must be needed before replicas start. Default 30.
        aggregation_function: How measurements become one: ``"mean"`` (the default), ``"max"`` or
            ``"min"``.
        policy: What says how many there are to be. Default: the number of requests.

    Raises:
        ValueError: The numbers contradict each other.

    Examples:
        >>> import ray
        >>> from ray.serve.config import AutoscalingConfig
        >>> AutoscalingConfig(min_replicas=1, max_replicas=4).max_replicas
        4
    """

    @field_validator("aggregation_function")
    @classmethod
    def _known_function(cls, value: Any) -> AggregationFunction:
        if isinstance(value, AggregationFunction):
            return value
        return AggregationFunction(str(value).lower())

    @field_validator("metrics_interval_s")
    @classmethod
    def _is_deprecated(cls, value: float) -> float:
        if value != _INTERVAL_S:
            warnings.warn(
                "`metrics_interval_s` of AutoscalingConfig is deprecated: set "
                "RAY_SERVE_REPLICA_AUTOSCALING_METRIC_PUSH_INTERVAL_S in the environment.",
                DeprecationWarning,
                stacklevel=2,
            )
        return value

    @field_validator("look_back_period_s")
    @classmethod
    def _looks_back_far_enough(cls, value: float, info: Any) -> float:
        interval = info.data.get("metrics_interval_s", _INTERVAL_S)
        if value <= interval:
            warnings.warn(
                f"`look_back_period_s` ({value}) should be greater than `metrics_interval_s` ({interval}).",
                FutureWarning,
                stacklevel=2,
            )
        return value

    @classmethod
    def default(cls) -> AutoscalingConfig:
        """Return what ``num_replicas="auto"`` means."""
        return cls(target_ongoing_requests=2.0, min_replicas=1, max_replicas=100)

    def get_upscaling_factor(self) -> float:
        """Return by how much of a difference the number of replicas rises."""
        gain: float = (
            self.upscaling_factor or self.upscale_smoothing_factor or self.smoothing_factor
        )
        return gain

    def get_downscaling_factor(self) -> float:
        """Return by how much of a difference the number of replicas falls."""
        gain: float = (
            self.downscaling_factor or self.downscale_smoothing_factor or self.smoothing_factor
        )
        return gain

    def get_target_ongoing_requests(self) -> float | None:
        """Return how many requests each replica is to have."""
        target: float | None = self.target_ongoing_requests
        return target


_RequestRouterConfigFields: Any = _fields_of(
    options.RequestRouterConfig,
    request_routing_stats_period_s=PositiveFloat,
    request_routing_stats_timeout_s=PositiveFloat,
    initial_backoff_s=PositiveFloat,
    backoff_multiplier=PositiveFloat,
    max_backoff_s=PositiveFloat,
)


class RequestRouterConfig(_RequestRouterConfigFields):
    """The choice of the replica for a handle's call.

    Requests by HTTP go to the replica with the fewest, whatever the class. Replicas with a method
    ``record_routing_stats`` tell the router what that returns.

    Attributes:
        request_router_class: A subclass of ``serve.request_router.RequestRouter``, or its import path.
            Default: the replica with the fewest requests.
        request_router_kwargs: What its ``initialize_state`` is told, once.
        request_routing_stats_period_s: Seconds between two times that replicas tell. Default 10.
        request_routing_stats_timeout_s: Seconds that they may take. Default 30.
        initial_backoff_s: Seconds after which the router is asked again where no replica has room.
            Default 0.025.
        backoff_multiplier: By how much that grows each time. Default 2.
        max_backoff_s: Up to how many seconds. Default 0.5.

    Raises:
        ValueError: The class cannot be imported, or the arguments are not JSON.

    Examples:
        >>> from ray import serve
        >>> from ray.serve.config import RequestRouterConfig
        >>> from ray.serve.request_router import RequestRouter
        >>> class First(RequestRouter):
        ...     async def choose_replicas(self, candidate_replicas, pending_request=None):
        ...         return [candidate_replicas[:1]]
        >>> @serve.deployment(request_router_config=RequestRouterConfig(request_router_class=First))
        ... def hello(name):
        ...     return f"Hello {name}"
    """

    _pickled: bytes = PrivateAttr(default=b"")

    @model_validator(mode="after")
    def _is_sensible(self) -> Any:
        made = options.RequestRouterConfig(**self._given())
        self.request_router_class, self._pickled = made.request_router_class, made._pickled
        return self

    def as_options(self) -> options.RequestRouterConfig:
        """The same as one of the classes in ``options``."""
        return options.RequestRouterConfig(**self._given(), pickled=self._pickled)

    def get_request_router_class(self) -> Callable[..., Any]:
        """The class."""
        return self.as_options().get_request_router_class()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RequestRouterConfig) and self.model_dump() == other.model_dump()

    __hash__ = None  # type: ignore[assignment] # it can change


_GangSchedulingConfigFields: Any = _fields_of(
    options.GangSchedulingConfig,
    gang_size=(int, Field(ge=1)),
    gang_placement_strategy=options.GangPlacementStrategy,
    runtime_failure_policy=options.GangRuntimeFailurePolicy,
)


class GangSchedulingConfig(_GangSchedulingConfigFields):
    """Replicas that start and end together.

    Attributes:
        gang_size: How many.
        gang_placement_strategy: ``PACK`` (the default): on few nodes; ``SPREAD``: on many.
        runtime_failure_policy: What happens when one of them ends. Default ``RESTART_GANG``.

    Raises:
        NotImplementedError: ``RESTART_REPLICA``, as on Ray.

    Examples:
        >>> from ray import serve
        >>> from ray.serve.config import GangSchedulingConfig
        >>> @serve.deployment(num_replicas=4, gang_scheduling_config=GangSchedulingConfig(gang_size=2))
        ... class Part:
        ...     pass
    """


_DeploymentActorConfigFields: Any = _fields_of(options.DeploymentActorConfig, "code")


class DeploymentActorConfig(_DeploymentActorConfigFields):
    """An actor that the replicas of a deployment share; it has the deployment's version and ends with it.

    Replicas start once it has, and find it by ``serve.get_deployment_actor(name)``. One that ends is started
    again: look it up again then.

    Attributes:
        name: Its name.
        actor_class: A class of ``@ray.remote``, or the import path of one.
        init_args: Positional arguments of its constructor.
        init_kwargs: Keyword arguments of its constructor.
        actor_options: Those of ``ActorClass.options``; its ``runtime_env`` is laid over the
            deployment's.

    Raises:
        TypeError: ``actor_class`` is not a class.

    Examples:
        >>> import ray
        >>> from ray import serve
        >>> from ray.serve.config import DeploymentActorConfig
        >>> @ray.remote
        ... class Cache:
        ...     pass
        >>> shared = DeploymentActorConfig(
        ...     name="cache", actor_class=Cache, actor_options={"num_cpus": 0.1}
        ... )
        >>> @serve.deployment(deployment_actors=[shared])
        ... class Front:
        ...     pass
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)
    _code: bytes = PrivateAttr(default=b"")

    @field_validator("init_args", mode="before")
    @classmethod
    def _none_is_empty(cls, value: Any) -> Any:
        return value or ()

    @model_validator(mode="after")
    def _is_sensible(self) -> Any:
        made = self.as_options()
        self.actor_class, self._code = made.actor_class, made.code
        return self

    def as_options(self) -> options.DeploymentActorConfig:
        """The same as one of the classes in ``options``."""
        return options.DeploymentActorConfig(
            self.name,
            self.actor_class,
            self.init_args,
            self.init_kwargs,
            self.actor_options,
            self._code,
        )

    def get_actor_class(self) -> Any:
        """The class. Raises ``ImportError`` where it is not to be found here."""
        cls = cloudpickle.loads(self._code)[0]
        return options.attribute(self.actor_class) if cls is None else cls


class ReplicaRank(BaseModel):
    """A replica's ranks, each from 0 on.

    ``rank``: among all replicas of the deployment; ``node_rank``: of its node, among those that have replicas
    of the deployment; ``local_rank``: among those of its node.
    """

    rank: int
    node_rank: int
    local_rank: int


_HTTPOptionsFields: Any = _fields_of(
    options.HTTPOptions, middlewares=(list[Any], []), location=ProxyLocation | None
)


class HTTPOptions(_HTTPOptionsFields):
    """Options of the HTTP server.

    Attributes:
        host: The address it listens at. Default ``"127.0.0.1"``: this machine alone; ``None``: there is
            no server.
        port: Its port. Default 8000.
        middlewares: Refused (ValueError).
        location: Deprecated: pass ``proxy_location`` to ``serve.start``.
        num_cpus: Refused (ValueError), but for 0: the server is not an actor.
        root_url: Refused (NotImplementedError).
        root_path: What a proxy in front of the server cuts off the paths of requests, so that
            applications make their URLs with it.
        request_timeout_s: Seconds from a request to its answer. Default ``None``: any.
        keep_alive_timeout_s: Seconds that a connection may be idle, and that a client may be silent in
            the middle of a request or take nothing of its answer. Default 90.
        ssl_keyfile: The file of the key, for TLS.
        ssl_certfile: The file of the certificate.
        ssl_keyfile_password: The password of an encrypted key.
        ssl_ca_certs: The file of the authorities of which a client has to show a certificate.

    Examples:
        >>> from ray import serve
        >>> options = serve.HTTPOptions(host="0.0.0.0", port=8080, request_timeout_s=30)
        >>> options.port
        8080

        ``serve.start(http_options=options)`` listens there.
    """

    model_config = ConfigDict(validate_assignment=True, arbitrary_types_allowed=True)

    @field_validator("location", mode="before")
    @classmethod
    def _is_deprecated(cls, value: Any) -> Any:
        if value is not None:
            warnings.warn(
                "`location` of HTTPOptions is deprecated: pass `proxy_location` to serve.start, or write it "
                "into the file.",
                DeprecationWarning,
                stacklevel=2,
            )
        return ProxyLocation.Disabled if value == "NoServer" else value

    @model_validator(mode="after")
    def _has_no_server_without_host(self) -> Any:
        if self.host is None:
            self.__dict__["location"] = ProxyLocation.Disabled
        return self


_BackpressureConfigFields: Any = _fields_of(
    options.BackpressureConfig,
    status_code=Literal[503, 429],
    retry_after_s=(NonNegativeFloat | None, Field(default=None, allow_inf_nan=False)),
)


class BackpressureConfig(_BackpressureConfigFields):
    """The answer to an HTTP client whose request is one more than ``max_queued_requests`` allows.

    Attributes:
        status_code: 503 (the default) or 429.
        retry_after_s: Seconds after which it may ask again, rounded up into the header `Retry-After`.
            Default: none.

    Examples:
        >>> from ray import serve
        >>> from ray.serve.config import BackpressureConfig
        >>> @serve.deployment(
        ...     max_queued_requests=10,
        ...     backpressure_config=BackpressureConfig(status_code=429, retry_after_s=2),
        ... )
        ... def hello(name):
        ...     return f"Hello {name}"
    """

    model_config = ConfigDict(extra="forbid")


_ControllerOptionsFields: Any = _fields_of(options.ControllerOptions)


class ControllerOptions(_ControllerOptionsFields):
    """Options of Serve's controller, which act where it is started.

    Attributes:
        runtime_env: Its ``env_vars`` alone.

    Raises:
        ValueError: There is something else in it.

    Examples:
        >>> from ray import serve
        >>> options = serve.ControllerOptions(runtime_env={"env_vars": {"STAGE": "test"}})
        >>> def begin():
        ...     serve.start(controller_options=options)  # before the first serve.run
        >>> try:
        ...     serve.ControllerOptions(runtime_env={"pip": ["emoji"]})
        ... except ValueError:
        ...     print("the controller has variables of its own, and no packages")
        the controller has variables of its own, and no packages
    """

    model_config = ConfigDict(extra="forbid")


_gRPCOptionsFields: Any = _fields_of(
    options.gRPCOptions, "methods", "described", grpc_servicer_functions=(list[str], [])
)


class gRPCOptions(_gRPCOptionsFields):
    """Options of the gRPC server, which runs where servicer functions are given.

    Attributes:
        port: Its port, at the host of the HTTP server. Default 9000.
        grpc_servicer_functions: Import paths of the functions ``add_…Servicer_to_server`` of generated
            code.
        request_timeout_s: Seconds for a call. Default: any.
        enable_reflection: Tell tools such as grpcurl of the services and their messages. Default True.

    Examples:
        >>> from ray.serve.config import gRPCOptions
        >>> options = gRPCOptions(
        ...     port=9000, grpc_servicer_functions=["my_pb2_grpc.add_GreeterServicer_to_server"]
        ... )

        ``serve.start(grpc_options=options)`` imports them on the head.
    """

    @property
    def grpc_servicer_func_callable(self) -> list[Callable[..., Any]]:
        """The functions. Raises ``ModuleNotFoundError`` or ``ValueError`` where one is not there."""
        return [servicers.imported(path) for path in self.grpc_servicer_functions]


_LoggingConfigFields: Any = _fields_of(options.LoggingConfig)


class LoggingConfig(_LoggingConfigFields):
    """Settings of the logs of replicas. Where none is given there is no line for each request.

    Attributes:
        encoding: ``"TEXT"`` (the default) or ``"JSON"``.
        log_level: The least level that is written. Default ``"INFO"``.
        logs_dir: The folder of the files. Default: ``logs/serve`` of the session.
        enable_access_log: A line for each request. Default True.
        additional_log_standard_attrs: Attributes of ``logging.LogRecord`` that lines have besides.

    Raises:
        ValueError: There is no such encoding or level.

    Examples:
        >>> from ray import serve
        >>> from ray.serve.schema import LoggingConfig
        >>> @serve.deployment(logging_config=LoggingConfig(encoding="JSON", log_level="DEBUG"))
        ... def hello(name):
        ...     return f"Hello {name}"
    """

    model_config = ConfigDict(extra="forbid")

    @field_validator("encoding", mode="before")
    @classmethod
    def _text(cls, value: Any) -> Any:
        text = getattr(value, "value", value)
        if text not in ("TEXT", "JSON"):
            raise ValueError(f"`encoding` must be TEXT or JSON, not {text!r}.")
        return text

    @field_validator("log_level")
    @classmethod
    def _named_level(cls, value: int | str) -> str:
        name: str = logging.getLevelName(value) if isinstance(value, int) else value
        if not isinstance(logging.getLevelName(name), int):
            raise ValueError(f"`log_level` must be a level such as INFO, not {value!r}.")
        return name

    @field_validator("additional_log_standard_attrs")
    @classmethod
    def _each_once(cls, value: list[str]) -> list[str]:
        return list(dict.fromkeys(value))


_TracingConfigFields: Any = _fields_of(
    options.TracingConfig, sampling_ratio=Annotated[float, Field(ge=0, le=1)]
)


class TracingConfig(_TracingConfigFields):
    """Traces of requests by OpenTelemetry.

    Attributes:
        enabled: Default: whether RAY_SERVE_TRACING_EXPORTER_IMPORT_PATH is set.
        exporter_import_path: A function without parameters that returns a list of OpenTelemetry's
            ``SpanProcessor``. Default: that variable; where it is empty, spans are written as JSON to
            ``logs/serve/spans`` of the session.
        sampling_ratio: The part of traces that is recorded, from 0 to 1. Default:
            RAY_SERVE_TRACING_SAMPLING_RATIO, or 0.01.

    Examples:
        >>> from ray.serve.schema import TracingConfig
        >>> config = TracingConfig(enabled=True, sampling_ratio=0.5)
        >>> config.enabled, config.sampling_ratio
        (True, 0.5)
    """

    model_config = ConfigDict(extra="forbid")
