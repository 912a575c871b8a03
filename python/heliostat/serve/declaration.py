"""The files of ``serve deploy`` and the bodies of ``PUT /api/serve/applications/``: Ray's schema.

Needs Pydantic, which comes with FastAPI. Fields that the schema does not know are ignored, as Ray does:
:func:`unknown_fields` finds them, for whoever can warn.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    create_model,
    model_validator,
)

from heliostat.serve.options import (
    ControllerOptions,
    HTTPOptions,
    LoggingConfig,
    ProxyLocation,
    TracingConfig,
    check_route_prefix,
    gRPCOptions,
    of,
)
from heliostat.util.model_fields import model_fields

DEFAULT_APP = "default"
# Prefixes of packages that every node can get at.
_REMOTE = ("http://", "https://", "s3://", "gs://", "azure://", "abfss://", "gcs://", "file://")
_REMOTE_ALSO = ("local://",)


def _import_path(path: str) -> str:
    separator = ":" if ":" in path else "."
    module, _, name = path.rpartition(separator)
    if path.count(":") > 1 or not module or not name:
        raise ValueError(
            f"{path!r} is not an import path: write it as module.submodule:application"
        )
    return path


def _remote(env: dict[str, Any]) -> dict[str, Any]:
    places = [*(env.get("py_modules") or []), env.get("working_dir")]
    for place in places:
        if place is not None and not str(place).startswith(_REMOTE + _REMOTE_ALSO):
            raise ValueError(
                "working_dir and py_modules may have only remote URIs such as https://host/code.zip: "
                f"{place!r} is none. `serve run` takes folders of this machine"
            )
    return env


def _logging(given: dict[str, Any] | None) -> dict[str, Any] | None:
    if given is not None:
        of(LoggingConfig, given)  # raises
    return given


def _tracing(given: dict[str, Any] | None) -> dict[str, Any] | None:
    of(TracingConfig, given)  # raises
    return given


def _controller(given: dict[str, Any] | None) -> dict[str, Any] | None:
    of(ControllerOptions, given)  # raises
    return given


def _queue(number: int) -> int:
    if number != -1 and number < 1:
        raise ValueError("must be -1 (no limit) or a positive integer")
    return number


def _number(number: int | str | None) -> int | str | None:
    if isinstance(number, str) and number != "auto":
        raise ValueError(f'must be an int or "auto", not {number!r}')
    if isinstance(number, int) and number < 1:
        raise ValueError("must be greater than 0")
    return number


def _unlike(apps: list[ServeApplicationSchema]) -> list[ServeApplicationSchema]:
    names, routes = set(), set()
    for app in apps:
        if app.name in names:
            raise ValueError(f"there are two applications named {app.name!r}")
        if app.route_prefix in routes:
            raise ValueError(f"there are two applications with route_prefix {app.route_prefix!r}")
        names.add(app.name)
        if app.route_prefix is not None:
            routes.add(app.route_prefix)
        for field in ("host", "port"):
            if field in app.model_fields_set:
                raise ValueError(
                    f"application {app.name!r} has a {field}: it belongs to http_options"
                )
    return apps


class _Schema(BaseModel):  # type: ignore[misc] # without types
    model_config: ClassVar[Any] = ConfigDict(validate_default=False)


class RayActorOptionsSchema(_Schema):
    """Options of a replica's actor."""

    runtime_env: Annotated[dict[str, Any], AfterValidator(_remote)] = {}
    num_cpus: float | None = Field(None, ge=0)
    num_gpus: float | None = Field(None, ge=0)
    memory: float | None = Field(None, ge=0)
    resources: dict[str, Any] = {}
    accelerator_type: str | None = None
    label_selector: dict[str, str] | None = None
    fallback_strategy: list[dict[str, Any]] | None = None


class DeploymentSchema(_Schema):
    """Options of a deployment that take the place of those in the code. Times in seconds."""

    name: str
    num_replicas: Annotated[int | str | None, AfterValidator(_number)] = None
    max_ongoing_requests: int = Field(5, gt=0)
    max_queued_requests: Annotated[int, AfterValidator(_queue)] = Field(-1, strict=True)
    backpressure_config: dict[str, Any] | None = None
    user_config: dict[str, Any] | None = None
    autoscaling_config: dict[str, Any] | None = None
    graceful_shutdown_wait_loop_s: float = Field(2.0, ge=0)
    graceful_shutdown_timeout_s: float = Field(20.0, ge=0)
    health_check_period_s: float = Field(10.0, gt=0)
    health_check_timeout_s: float = Field(30.0, gt=0)
    ray_actor_options: RayActorOptionsSchema | None = None
    placement_group_bundles: list[dict[str, float]] | None = None
    placement_group_strategy: str | None = None
    placement_group_bundle_label_selector: list[dict[str, str]] | None = None
    max_replicas_per_node: int | None = Field(None, ge=1, le=100)
    logging_config: Annotated[dict[str, Any] | None, AfterValidator(_logging)] = None
    request_router_config: dict[str, Any] | None = None
    gang_scheduling_config: dict[str, Any] | None = None
    deployment_actors: list[dict[str, Any]] | None = None
    rolling_update_percentage: float | None = Field(None, gt=0, le=1)
    max_surge_percent: int | None = Field(None, ge=0, le=100)

    @model_validator(mode="after")  # type: ignore[untyped-decorator] # without types
    def _go_together(self) -> Any:
        if isinstance(self.num_replicas, int) and self.autoscaling_config is not None:
            raise ValueError("num_replicas and autoscaling_config cannot be given both")
        if self.max_replicas_per_node is not None and self.placement_group_bundles is not None:
            raise ValueError(
                "max_replicas_per_node and placement_group_bundles cannot be given both"
            )
        return self


class ServeApplicationSchema(_Schema):
    """An application: what is imported, and how it is run."""

    name: str = Field(DEFAULT_APP, min_length=1)
    route_prefix: Annotated[str | None, AfterValidator(check_route_prefix)] = "/"
    import_path: Annotated[str, AfterValidator(_import_path)]
    runtime_env: Annotated[dict[str, Any], AfterValidator(_remote)] = {}
    host: str = "0.0.0.0"
    port: int = 8000
    deployments: list[DeploymentSchema] = []
    autoscaling_policy: dict[str, Any] | None = None
    args: dict[str, Any] = {}
    logging_config: Annotated[dict[str, Any] | None, AfterValidator(_logging)] = None
    external_scaler_enabled: bool = False

    @property
    def deployment_names(self) -> list[str]:
        """The deployments that have options here."""
        return [one.name for one in self.deployments]


def _fields_of(declared: type[Any], *without: str, **other: Any) -> Any:
    """A schema with the fields of a class of options; ``other``: those that differ."""
    fields = model_fields(declared, **other)
    for name in without:
        del fields[name]
    return create_model(f"_{declared.__name__}Fields", __base__=_Schema, **fields)


_NOT_IN_FILES = ("middlewares", "location", "num_cpus", "root_url")


class HTTPOptionsSchema(_fields_of(HTTPOptions, *_NOT_IN_FILES)):  # type: ignore[misc] # made of the options
    """Options of the HTTP server. In a file the host is 0.0.0.0 unless it says otherwise: everybody."""

    host: str = "0.0.0.0"


_gRPCFields: Any = _fields_of(
    gRPCOptions, "methods", "described", grpc_servicer_functions=(list[str], [])
)


class gRPCOptionsSchema(_gRPCFields):  # type: ignore[misc] # made of the options
    """Options of the gRPC server."""


class ServeDeploySchema(_Schema):
    """All applications that are to be, and the servers in front of them."""

    proxy_location: ProxyLocation = ProxyLocation.EveryNode
    http_options: HTTPOptionsSchema = HTTPOptionsSchema()
    grpc_options: gRPCOptionsSchema = gRPCOptionsSchema()
    controller_options: Annotated[dict[str, Any] | None, AfterValidator(_controller)] = None
    logging_config: Annotated[dict[str, Any] | None, AfterValidator(_logging)] = None
    tracing_config: Annotated[dict[str, Any] | None, AfterValidator(_tracing)] = None
    applications: Annotated[list[ServeApplicationSchema], AfterValidator(_unlike)]
    target_capacity: float | None = Field(None, ge=0, le=100)

    @staticmethod
    def get_empty_schema_dict() -> dict[str, Any]:
        """A configuration without applications."""
        return {"applications": []}


def parsed(config: object) -> ServeDeploySchema:
    """The configuration that a file or a request has. Raises ``ValueError`` that names the fields."""
    if not isinstance(config, dict):
        raise ValueError("The configuration must be a mapping with the key `applications`.")
    try:
        schema: ServeDeploySchema = ServeDeploySchema.model_validate(config)
    except ValidationError as error:
        rows = [f"{_path(one['loc'])}: {_words(one['msg'])}" for one in error.errors()]
        raise ValueError("\n".join(["The configuration is not valid:", *rows])) from None
    return schema


def _path(places: tuple[int | str, ...]) -> str:
    text = ""
    for place in places:
        text += f"[{place}]" if isinstance(place, int) else f".{place}" if text else str(place)
    return text or "configuration"


def _words(message: str) -> str:
    return message.removeprefix("Value error, ")


def unknown_fields(config: Any, schema: Any = ServeDeploySchema, path: str = "") -> list[str]:
    """Fields of a configuration that are ignored, as paths such as ``applications[0].replicas``."""
    found: list[str] = []
    for name, value in config.items() if isinstance(config, dict) else ():
        here = f"{path}.{name}" if path else str(name)
        if name not in schema.model_fields:
            found.append(here)
        elif name in _PARTS:
            if isinstance(value, list):
                for number, one in enumerate(value):
                    found += unknown_fields(one, _PARTS[name], f"{here}[{number}]")
            else:
                found += unknown_fields(value, _PARTS[name], here)
    return found


_PARTS = {
    "applications": ServeApplicationSchema,
    "deployments": DeploymentSchema,
    "http_options": HTTPOptionsSchema,
    "grpc_options": gRPCOptionsSchema,
    "ray_actor_options": RayActorOptionsSchema,
}
