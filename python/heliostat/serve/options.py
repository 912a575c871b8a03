"""Options of deployments and of the HTTP server, as Serve works with them; ``models`` has what users see.

``deployment_config`` has those of a deployment together.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import json
import logging
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from cloudpickle.cloudpickle import list_registry_pickle_by_value

from heliostat import cloudpickle
from heliostat.core.platform import settings

if TYPE_CHECKING:
    from heliostat.serve.context import ReplicaID
    from heliostat.serve.specs import DeploymentID

T = TypeVar("T")


def check_least(options: object, least: Mapping[str, float]) -> None:
    """Raise ``ValueError`` where a field that is given is less than it may be."""
    for name, bound in least.items():
        value = getattr(options, name)
        if value is not None and (isinstance(value, bool) or not value >= bound):
            raise ValueError(f"`{name}` must be at least {bound}, not {value!r}.")


def check_whole(options: object, *names: str) -> None:
    """Raise ``ValueError`` where a field that is given is not an integer."""
    for name in names:
        value = getattr(options, name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
            raise ValueError(f"`{name}` must be an integer, not {value!r}.")


def check_route_prefix(prefix: str | None) -> str | None:
    """A prefix of paths, or ``None``. Raises ``ValueError`` for any other text."""
    if prefix is None:
        return None
    if not prefix.startswith("/"):
        raise ValueError(f"The route_prefix {prefix!r} must begin with '/'.")
    if prefix != "/" and prefix.endswith("/"):
        raise ValueError(f"The route_prefix {prefix!r} must not end with '/'.")
    if "{" in prefix or "}" in prefix:
        raise ValueError(f"The route_prefix {prefix!r} may not contain wildcards.")
    return prefix


class ProxyLocation(str, Enum):
    """The nodes that HTTP servers run on.

    Examples:
        >>> from ray.serve.config import ProxyLocation
        >>> [location.value for location in ProxyLocation]
        ['Disabled', 'HeadOnly', 'EveryNode']
    """

    Disabled = "Disabled"
    HeadOnly = "HeadOnly"
    EveryNode = "EveryNode"

    @classmethod
    def _missing_(cls, value: object) -> ProxyLocation | None:
        # An older name of the location, in ``http_options={"location": "NoServer"}``.
        return cls.Disabled if value == "NoServer" else None


@dataclass
class HTTPOptions:
    """Options of the HTTP server.

    ``request_timeout_s``: seconds from a request to its answer, ``None``: any; ``keep_alive_timeout_s``:
    seconds that a connection may be idle, and that a client may be silent in the middle of a request or take
    nothing of its answer; ``root_path``: what a proxy in front of the server cuts off the
    paths of requests, so that applications make their URLs with it; ``ssl_certfile`` and ``ssl_keyfile``:
    the server's certificate and its key, in PEM, with which it speaks TLS; ``ssl_keyfile_password``: of an
    encrypted key (needs the package `cryptography`); ``ssl_ca_certs``: clients have to show a certificate of
    these authorities; relative paths are those of the program that starts Serve. Files that change are
    read again. ``root_url`` raises ``NotImplementedError``,
    middlewares ``ValueError``.
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
        if self.root_path and not self.root_path.startswith("/"):
            raise ValueError(f"`root_path` of HTTPOptions must begin with '/': {self.root_path!r}.")
        if self.root_path.endswith("/"):
            raise ValueError(
                f"`root_path` of HTTPOptions must not end with '/': {self.root_path!r}."
            )
        if bool(self.ssl_certfile) != bool(self.ssl_keyfile):
            raise ValueError("`ssl_certfile` and `ssl_keyfile` of HTTPOptions go together.")
        for name in ("ssl_keyfile_password", "ssl_ca_certs"):
            if getattr(self, name) and not self.ssl_certfile:
                raise ValueError(f"`{name}` of HTTPOptions needs `ssl_certfile` and `ssl_keyfile`.")
        if self.root_url:
            raise NotImplementedError(
                "`root_url` of HTTPOptions has no effect in Heliostat: applications make their URLs with "
                "`root_path`."
            )


@dataclass
class gRPCOptions:
    """Options of the gRPC server, which runs where servicer functions are given.

    ``port``: default 9000, at the host of the HTTP server; ``grpc_servicer_functions``: import paths of the
    functions ``add_…Servicer_to_server`` of generated code; ``request_timeout_s``: for a call, default none;
    ``enable_reflection``: whether tools such as grpcurl are told of the services and their messages.
    """

    port: int = 9000
    grpc_servicer_functions: list[str] = dataclasses.field(default_factory=list)
    request_timeout_s: float | None = None
    enable_reflection: bool = True
    # Whether the client sends a stream, by the path of the function.
    methods: dict[str, bool] = dataclasses.field(default_factory=dict)
    # The descriptions of the services for server reflection.
    described: dict[str, Any] | None = None

    def resolved(self) -> gRPCOptions:
        """The options with the methods that the functions have. Raises as ``servicers.imported``."""
        from heliostat.serve import servicers

        found = servicers.methods_of(self.grpc_servicer_functions)
        streams = {path: method.takes_stream for path, method in found.items()}
        described = servicers.described(found) if found and self.enable_reflection else None
        return dataclasses.replace(self, methods=streams, described=described)

    def as_row(self) -> dict[str, Any]:
        """Return the options as they were given."""
        row = dataclasses.asdict(self)
        del row["methods"], row["described"]
        return row


@dataclass
class LoggingConfig:
    """Settings of the logs of replicas. Where none is given there is no line for each request.

    ``encoding``: TEXT or JSON; ``logs_dir``: the folder of the files, default ``logs/serve`` of the session;
    ``enable_access_log``: a line for each request; ``additional_log_standard_attrs``: attributes of
    ``logging.LogRecord`` that lines have besides.
    """

    encoding: str = "TEXT"
    log_level: int | str = "INFO"
    logs_dir: str | None = None
    enable_access_log: bool = True
    additional_log_standard_attrs: list[str] = dataclasses.field(default_factory=list)

    def __post_init__(self) -> None:
        self.encoding = str(getattr(self.encoding, "value", self.encoding)).upper()
        if self.encoding not in ("TEXT", "JSON"):
            raise ValueError(f"`encoding` must be TEXT or JSON, not {self.encoding!r}.")
        level: object = self.log_level
        if isinstance(level, str):
            self.log_level = level.upper()
            level = logging.getLevelName(self.log_level)
        if isinstance(level, bool) or not isinstance(level, int):
            raise ValueError(f"`log_level` must be a level such as INFO, not {self.log_level!r}.")
        unknown = set(self.additional_log_standard_attrs) - _LOG_ATTRIBUTES
        if unknown:
            raise ValueError(
                f"`additional_log_standard_attrs`: a record has no {sorted(unknown)[0]!r}."
            )


@dataclass
class TracingConfig:
    """Traces of requests by OpenTelemetry.

    ``enabled``: default whether RAY_SERVE_TRACING_EXPORTER_IMPORT_PATH is set. ``exporter_import_path``: a
    function without parameters that returns a list of OpenTelemetry's ``SpanProcessor``, default that
    variable; where it is empty, spans are written as JSON to ``logs/serve/spans`` of the session.
    ``sampling_ratio``: the part of traces that is recorded, from 0 to 1, default
    RAY_SERVE_TRACING_SAMPLING_RATIO, or 0.01; a request whose ``traceparent`` says that it is recorded is
    recorded.
    """

    enabled: bool = dataclasses.field(
        default_factory=lambda: bool(settings.text("SERVE_TRACING_EXPORTER_IMPORT_PATH"))
    )
    exporter_import_path: str = dataclasses.field(
        default_factory=lambda: settings.text("SERVE_TRACING_EXPORTER_IMPORT_PATH")
    )
    sampling_ratio: float = dataclasses.field(
        default_factory=lambda: settings.number("SERVE_TRACING_SAMPLING_RATIO")
    )

    def __post_init__(self) -> None:
        ratio: Any = self.sampling_ratio
        if isinstance(ratio, bool) or not isinstance(ratio, int | float) or not 0 <= ratio <= 1:
            raise ValueError(f"`sampling_ratio` must be a number from 0 to 1, not {ratio!r}.")


_LOG_ATTRIBUTES = {*vars(logging.makeLogRecord({})), "message", "asctime"}


def attribute(path: str, *, again: bool = False) -> Any:
    """Return the object of ``module:name`` or ``module.name``; with ``again`` the module is read
    anew.
    """
    name, _, rest = path.rpartition(":" if ":" in path else ".")
    if not name or not rest:
        raise ValueError(
            f"{path!r} is not an import path: write it as module.submodule:application."
        )
    module = importlib.import_module(name)
    if again:
        module = importlib.reload(module)
    found: Any = module
    for part in rest.split("."):
        found = getattr(found, part)
    return found


def pickled_by_value(target: Callable[..., Any], whole: Any = None) -> bytes:
    """A function or class with the code of its module: processes without that module load it too.

    ``whole``: what has it, to be pickled in its place.
    """
    wanted = target if whole is None else whole
    module = inspect.getmodule(target)
    name = "" if module is None else module.__name__
    if name.partition(".")[0] == "heliostat" or name in list_registry_pickle_by_value():
        return cloudpickle.dumps(wanted)
    if module is not None:
        cloudpickle.register_pickle_by_value(module)
    try:
        return cloudpickle.dumps(wanted)
    finally:
        if module is not None:
            cloudpickle.unregister_pickle_by_value(module)


class AggregationFunction(str, Enum):
    """The aggregation of a load that changes within ``look_back_period_s``.

    Examples:
        >>> from ray.serve.config import AggregationFunction, AutoscalingConfig
        >>> config = AutoscalingConfig(max_replicas=4, aggregation_function=AggregationFunction.MAX)
    """

    MEAN = "mean"
    MAX = "max"
    MIN = "min"


class TimeStampedValue(NamedTuple):
    """A value from a Unix time on."""

    timestamp: float
    value: float


@dataclass
class AutoscalingContext:
    """The context of a policy for its deployment. Times are Unix times, in seconds.

    Attributes:
        deployment_id: The deployment.
        deployment_name: Its name.
        app_name: Its application.
        current_num_replicas: Replicas that run or start.
        target_num_replicas: Replicas that there are to be.
        running_replicas: Those that run.
        total_num_requests: Requests over ``look_back_period_s``.
        total_queued_requests: Those that waited, likewise.
        aggregated_metrics: What replicas returned from ``record_autoscaling_stats``, by metric and
            replica, likewise.
        raw_metrics: The same, unaggregated.
        capacity_adjusted_min_replicas: How many there may be at least.
        capacity_adjusted_max_replicas: How many there may be at most.
        policy_state: What the policy returned the last time.
        last_scale_up_time: When replicas were added last.
        last_scale_down_time: When replicas were taken away last.
        current_time: Now.
        config: The ``AutoscalingConfig``.

    Examples:
        >>> from ray.serve.config import AutoscalingContext, AutoscalingPolicy
        >>> def one_for_ten(context: AutoscalingContext):
        ...     wanted = context.total_num_requests / 10
        ...     if context.total_queued_requests > 100:
        ...         wanted += 1
        ...     return wanted, {}
        >>> policy = AutoscalingPolicy(policy_function=one_for_ten)

        ``AutoscalingConfig(max_replicas=4, policy=policy)`` has a deployment follow it.
    """

    deployment_id: DeploymentID
    deployment_name: str
    app_name: str | None
    current_num_replicas: int
    target_num_replicas: int
    running_replicas: list[ReplicaID]
    total_num_requests: float
    total_queued_requests: float
    aggregated_metrics: dict[str, dict[ReplicaID, float]]
    raw_metrics: dict[str, dict[ReplicaID, list[TimeStampedValue]]]
    capacity_adjusted_min_replicas: int
    capacity_adjusted_max_replicas: int
    policy_state: dict[str, Any]
    last_scale_up_time: float | None
    last_scale_down_time: float | None
    current_time: float | None
    config: Any

    @property
    def total_running_requests(self) -> float:
        """Requests that are at replicas."""
        return max(0.0, self.total_num_requests - self.total_queued_requests)


DEFAULT_POLICY = "heliostat.serve.autoscaling_policy:default_autoscaling_policy"
# Calls go to the replica with the fewest, by Ray's name.
DEFAULT_ROUTER = "ray.serve._private.request_router:PowerOfTwoChoicesRequestRouter"


@dataclass
class AutoscalingPolicy:
    """The rule for the number of a deployment's replicas: a function, a class, or the import path of one.

    It is called with an ``AutoscalingContext`` several times a second, in the process of Serve's controller,
    and returns a number and a dict that is ``policy_state`` the next time. A class is made once, with
    ``policy_kwargs``. The factors, delays and bounds of the ``AutoscalingConfig`` apply to its number.
    Raises ``ValueError`` where it cannot be imported, or ``policy_kwargs`` is not JSON.
    """

    policy_function: str | Callable[..., Any] = DEFAULT_POLICY
    policy_kwargs: dict[str, Any] = dataclasses.field(default_factory=dict)
    pickled: dataclasses.InitVar[bytes] = b""  # the code, where it is at hand

    def __post_init__(self, pickled: bytes) -> None:
        self._pickled = pickled
        if pickled:
            return
        try:
            json.dumps(self.policy_kwargs)
        except TypeError as error:
            raise ValueError(f"policy_kwargs is not JSON-serializable: {error}.") from None
        policy = self.policy_function
        if isinstance(policy, str):
            try:
                policy = attribute(policy)
            except (ImportError, AttributeError) as error:
                raise ValueError(
                    f"The autoscaling policy {policy!r} cannot be imported: {error}. It has to be on the "
                    "PYTHONPATH of the cluster's head, not in a working_dir alone."
                ) from None
        else:
            self.policy_function = f"{policy.__module__}:{policy.__qualname__}"
        if not callable(policy):
            raise TypeError(f"An autoscaling policy is a function or a class, not {policy!r}.")
        # By value: the controller need not have the module.
        self._pickled = pickled_by_value(policy)

    def is_default_policy_function(self) -> bool:
        """Whether the number of requests alone decides."""
        return self.policy_function == DEFAULT_POLICY

    def get_policy(self) -> Callable[..., Any]:
        """The function or class."""
        return cloudpickle.loads(self._pickled)  # type: ignore[no-any-return] # the user's


@dataclass
class AutoscalingConfig:
    """Settings by which the number of replicas follows the load; times in seconds."""

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
    aggregation_function: AggregationFunction | str = AggregationFunction.MEAN
    policy: AutoscalingPolicy | None = None

    def __post_init__(self) -> None:
        check_whole(self, "min_replicas", "max_replicas", "initial_replicas")
        check_least(self, {"min_replicas": 0, "max_replicas": 1, "initial_replicas": 0})
        least, most = self.min_replicas, self.max_replicas
        if most < least:
            raise ValueError(f"max_replicas ({most}) must be at least min_replicas ({least}).")
        first = self.initial_replicas
        if first is not None and not least <= first <= most:
            raise ValueError("initial_replicas must be between min_replicas and max_replicas.")
        if self.target_ongoing_requests <= 0:
            raise ValueError("target_ongoing_requests must be greater than 0.")
        times = ("upscale_delay_s", "downscale_delay_s", "downscale_to_zero_delay_s")
        check_least(self, dict.fromkeys(times, 0))
        how = self.aggregation_function
        self.aggregation_function = AggregationFunction(getattr(how, "value", how).lower())
        if self.policy is not None:
            self.policy = of(AutoscalingPolicy, self.policy)


@dataclass
class RequestRouterConfig:
    """The same as ``serve.config.RequestRouterConfig``, without pydantic."""

    request_router_class: str | Callable[..., Any] = DEFAULT_ROUTER
    request_router_kwargs: dict[str, Any] = dataclasses.field(default_factory=dict)
    request_routing_stats_period_s: float = 10.0
    request_routing_stats_timeout_s: float = 30.0
    initial_backoff_s: float = 0.025
    backoff_multiplier: float = 2.0
    max_backoff_s: float = 0.5
    pickled: dataclasses.InitVar[bytes] = b""  # the class, where it is at hand

    def __post_init__(self, pickled: bytes) -> None:
        for name in (
            "request_routing_stats_period_s",
            "request_routing_stats_timeout_s",
            "initial_backoff_s",
            "backoff_multiplier",
            "max_backoff_s",
        ):
            value = getattr(self, name)
            if isinstance(value, bool) or not value > 0:
                raise ValueError(f"`{name}` must be greater than 0, not {value!r}.")
        self._pickled = pickled
        if pickled or self.is_default():
            return
        try:
            json.dumps(self.request_router_kwargs)
        except TypeError as error:
            raise ValueError(f"request_router_kwargs is not JSON-serializable: {error}.") from None
        chosen = self.request_router_class
        if isinstance(chosen, str):
            try:
                chosen = attribute(chosen)
            except (ImportError, AttributeError) as error:
                raise ValueError(
                    f"The request router {chosen!r} cannot be imported: {error}."
                ) from None
        else:
            self.request_router_class = f"{chosen.__module__}:{chosen.__qualname__}"
        if not inspect.isclass(chosen) or not hasattr(chosen, "choose_replicas"):
            raise TypeError(f"A request router is a subclass of RequestRouter, not {chosen!r}.")
        # By value: not every process with handles has the module.
        self._pickled = pickled_by_value(chosen)

    def is_default(self) -> bool:
        """Whether the default router is used: calls go to the replica with the fewest requests."""
        return self.request_router_class == DEFAULT_ROUTER

    def get_request_router_class(self) -> Callable[..., Any]:
        """The class."""
        return cloudpickle.loads(self._pickled)  # type: ignore[no-any-return] # the user's


@dataclass
class BackpressureConfig:
    """The answer to an HTTP client whose request is one more than ``max_queued_requests`` allows.

    ``status_code``: 503 or 429; ``retry_after_s``: seconds after which it may ask again, rounded up into the
    header `Retry-After`, default none.
    """

    status_code: int = 503
    retry_after_s: float | None = None

    def __post_init__(self) -> None:
        if self.status_code not in (503, 429):
            raise ValueError(f"`status_code` must be 503 or 429, not {self.status_code!r}.")
        check_least(self, {"retry_after_s": 0})
        if self.retry_after_s is not None and math.isinf(self.retry_after_s):
            raise ValueError("`retry_after_s` must be a finite number of seconds.")

    def as_row(self) -> dict[str, Any]:
        """The answer's status, and its `Retry-After` in whole seconds."""
        after = self.retry_after_s
        return {
            "status": self.status_code,
            "retry_after": None if after is None else math.ceil(after),
        }


@dataclass
class ControllerOptions:
    """Options of Serve's controller, which act where it is started.

    ``runtime_env``: its ``env_vars`` alone. Raises ``ValueError`` for anything else in it.
    """

    runtime_env: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        given = self.runtime_env
        if given is None:
            return
        if not isinstance(given, Mapping):
            raise ValueError(f"`runtime_env` must be a dict, not {type(given).__name__}.")
        others = sorted(set(given) - {"env_vars"})
        if others:
            raise ValueError(
                f"`runtime_env` of the controller may only have `env_vars`, not {others}: what replicas need "
                "belongs to their `ray_actor_options`."
            )
        for name, value in dict(given.get("env_vars") or {}).items():
            if not name or not isinstance(name, str) or not isinstance(value, str):
                raise ValueError(f"`env_vars` are texts by names: {name!r}: {value!r} is not.")


class GangPlacementStrategy(str, Enum):
    """The placement of a gang's replicas, as far as there is room.

    Examples:
        >>> from ray.serve.config import GangPlacementStrategy, GangSchedulingConfig
        >>> gangs = GangSchedulingConfig(gang_size=2, gang_placement_strategy=GangPlacementStrategy.SPREAD)
        >>> gangs.gang_placement_strategy.name
        'SPREAD'
    """

    PACK = "PACK"
    SPREAD = "SPREAD"


class GangRuntimeFailurePolicy(str, Enum):
    """The treatment of a gang whose replica has ended.

    Examples:
        >>> from ray.serve.config import GangRuntimeFailurePolicy, GangSchedulingConfig
        >>> gangs = GangSchedulingConfig(gang_size=2)
        >>> gangs.runtime_failure_policy is GangRuntimeFailurePolicy.RESTART_GANG  # the default
        True
    """

    RESTART_GANG = "RESTART_GANG"
    RESTART_REPLICA = "RESTART_REPLICA"


@dataclass
class GangSchedulingConfig:
    """Replicas that start and end together, ``gang_size`` at a time.

    A gang has one placement group: ``PACK`` puts its replicas on few nodes, ``SPREAD`` on many. Raises
    ``NotImplementedError`` for ``RESTART_REPLICA``, as Ray does.
    """

    gang_size: int
    gang_placement_strategy: GangPlacementStrategy | str = GangPlacementStrategy.PACK
    runtime_failure_policy: GangRuntimeFailurePolicy | str = GangRuntimeFailurePolicy.RESTART_GANG

    def __post_init__(self) -> None:
        check_whole(self, "gang_size")
        check_least(self, {"gang_size": 1})
        self.gang_placement_strategy = GangPlacementStrategy(self.gang_placement_strategy)
        self.runtime_failure_policy = GangRuntimeFailurePolicy(self.runtime_failure_policy)
        if self.runtime_failure_policy is GangRuntimeFailurePolicy.RESTART_REPLICA:
            raise NotImplementedError(
                "`runtime_failure_policy` can only be RESTART_GANG: the replicas of a gang end together."
            )

    def as_row(self) -> dict[str, Any]:
        """The row of a configuration file."""
        return {
            "gang_size": self.gang_size,
            "gang_placement_strategy": GangPlacementStrategy(self.gang_placement_strategy).value,
            "runtime_failure_policy": GangRuntimeFailurePolicy(self.runtime_failure_policy).value,
        }


@dataclass
class DeploymentActorConfig:
    """An actor that the replicas of a deployment share; it has the deployment's version and ends with it.

    ``actor_class``: of ``@ray.remote``, or the import path of one. ``actor_options``: those of
    ``ActorClass.options``; its ``runtime_env`` is laid over the deployment's. Raises ``TypeError`` for what
    is not a class.
    """

    name: str
    actor_class: Any
    init_args: tuple[Any, ...] = ()
    init_kwargs: dict[str, Any] = dataclasses.field(default_factory=dict)
    actor_options: dict[str, Any] = dataclasses.field(default_factory=dict)
    # The class, where it is at hand, and the arguments: no process but the actor's own unpickles them.
    code: bytes = b""

    def __post_init__(self) -> None:
        if not self.name:
            raise ValueError("A deployment actor has a name.")
        if self.code:
            return
        given, args = self.actor_class, (tuple(self.init_args or ()), dict(self.init_kwargs or {}))
        if isinstance(given, str):
            if not any(one in given for one in ":."):
                raise ValueError(
                    f"{given!r} is not an import path: write it as module.submodule:Class."
                )
            self.code = cloudpickle.dumps((None, *args))
        else:
            cls = getattr(given, "__ray_actor_class__", given)
            if not inspect.isclass(cls):
                raise TypeError(
                    f"The class of the deployment actor {self.name!r} is a class of @ray.remote, or the "
                    f"import path of one, not {given!r}."
                )
            # By value: the actor's process need not have the module.
            self.code = pickled_by_value(cls, (given, *args))
            self.actor_class = f"{cls.__module__}:{cls.__qualname__}"
        self.init_args, self.init_kwargs = (), {}

    def as_row(self) -> dict[str, Any]:
        """The row of a configuration file: the arguments are not told."""
        return {
            "name": self.name,
            "actor_class": self.actor_class,
            "actor_options": dict(self.actor_options),
        }


def of(kind: type[T], given: Any) -> T:
    """An options object from itself, a mapping or ``None``."""
    if given is None:
        return kind()
    if isinstance(given, kind):
        return given
    same: Any = getattr(given, "as_options", lambda: None)()  # of a model
    if isinstance(same, kind):
        return same
    if not isinstance(given, Mapping):
        raise TypeError(f"Expected a dict or a {kind.__name__}, not {type(given).__name__}.")
    names = {field.name for field in dataclasses.fields(kind)}  # type: ignore[arg-type] # all are
    unknown = set(given) - names
    if unknown:
        raise ValueError(f"{kind.__name__} has no {sorted(unknown)}; it has {sorted(names)}.")
    return kind(**given)
