"""The functions of ``serve``."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import heliostat as ray
from heliostat.core import settings
from heliostat.core.extras import required
from heliostat.serve import local, specs
from heliostat.serve.controller import actor as controller_actor
from heliostat.serve.deployment import UNSET, Application, Deployment, build, configured
from heliostat.serve.exceptions import RayServeException
from heliostat.serve.handle import DeploymentHandle
from heliostat.serve.options import (
    ControllerOptions,
    DeploymentConfig,
    HTTPOptions,
    LoggingConfig,
    ProxyLocation,
    TracingConfig,
    gRPCOptions,
    of,
)
from heliostat.serve.router import forget_all
from heliostat.serve.schema import ApplicationStatus, ServeStatus
from heliostat.serve.specs import DeploymentID

__all__ = ["RunTarget"]

logger = logging.getLogger("ray.serve")

# Serve's controller waits for many at a time, each a call that is answered when something changes.
_CALLS_MAX = 1_000_000


@dataclass(frozen=True)
class RunTarget:
    """An application for ``serve.run_many``."""

    target: Application
    name: str = "default"
    route_prefix: str | None = "/"
    logging_config: Any = None
    external_scaler_enabled: bool = False


def deployment(
    _func_or_class: Callable[..., Any] | None = None,
    name: str = UNSET,
    version: str | None = UNSET,
    num_replicas: int | str | None = UNSET,
    ray_actor_options: dict[str, Any] | None = UNSET,
    placement_group_bundles: Any = UNSET,
    placement_group_strategy: Any = UNSET,
    placement_group_bundle_label_selector: Any = UNSET,
    max_replicas_per_node: Any = UNSET,
    user_config: Any = UNSET,
    max_ongoing_requests: int = UNSET,
    max_queued_requests: int = UNSET,
    backpressure_config: Any = UNSET,
    autoscaling_config: Any = UNSET,
    graceful_shutdown_wait_loop_s: float = UNSET,
    graceful_shutdown_timeout_s: float = UNSET,
    health_check_period_s: float = UNSET,
    health_check_timeout_s: float = UNSET,
    logging_config: Any = UNSET,
    request_router_config: Any = UNSET,
    max_constructor_retry_count: int = UNSET,
    gang_scheduling_config: Any = UNSET,
    deployment_actors: Any = UNSET,
    rolling_update_percentage: Any = UNSET,
    max_surge_percent: Any = UNSET,
) -> Any:
    """Make a deployment of a class or function.

    Defaults: one replica with one CPU, ``max_ongoing_requests=5``, any number of queued requests, health
    checks each 10 s with 30 s for the answer, 20 s for requests to end when a replica is stopped. Times are
    in seconds. Raises ``ValueError`` for what cannot be, ``NotImplementedError`` for options that
    Heliostat has not.

    An update replaces replicas: by default a fifth more than the target start before old ones stop.
    ``max_surge_percent``: so many more, in percent of the target; 0: none, then
    ``rolling_update_percentage`` of the target (a fraction, default 0.2) stop before new ones start.
    """
    options = {
        key: value for key, value in locals().items() if key not in ("_func_or_class", "name")
    }

    def decorate(target: Callable[..., Any]) -> Deployment:
        made = configured(DeploymentConfig(), options)
        return Deployment(target, target.__name__ if name in (UNSET, None) else name, made)

    return decorate(_func_or_class) if callable(_func_or_class) else decorate


def start(
    proxy_location: ProxyLocation | str | None = None,
    http_options: HTTPOptions | dict[str, Any] | None = None,
    grpc_options: Any = None,
    logging_config: Any = None,
    tracing_config: Any = None,
    controller_options: Any = None,
    **kwargs: Any,
) -> None:
    """Start Serve on the cluster; without effect where it runs already.

    ``http_options``: host and port of the HTTP server, default 127.0.0.1:8000. Raises ``RuntimeError``
    when the port is taken, or a file of TLS is of no use. ``grpc_options``: with
    ``grpc_servicer_functions`` a gRPC server runs besides, at port 9000 of the same host; raises
    ``ModuleNotFoundError`` or ``ValueError`` where a function is not there. ``logging_config``: of
    the replicas that have none of their own. ``tracing_config``: a ``TracingConfig`` or a dict of its fields;
    raises ``ImportError`` where OpenTelemetry's SDK is missing.
    ``controller_options``: ``{"runtime_env": {"env_vars": …}}`` of Serve's controller. Options have no effect
    where Serve runs already.
    """
    if kwargs:
        raise ValueError(f"serve.start has no parameters {sorted(kwargs)}.")
    options = of(HTTPOptions, http_options)
    location = ProxyLocation(proxy_location or options.location or ProxyLocation.HeadOnly)
    if options.host is None:
        location = ProxyLocation.Disabled
    logged = None if logging_config is None else of(LoggingConfig, logging_config)
    traced = of(TracingConfig, tracing_config)
    controller(options, location, logged, controller_options, of(gRPCOptions, grpc_options), traced)


def controller(
    options: HTTPOptions | None = None,
    location: ProxyLocation = ProxyLocation.HeadOnly,
    logged: LoggingConfig | None = None,
    own: Any = None,
    grpc: gRPCOptions | None = None,
    traced: TracingConfig | None = None,
) -> Any:
    """The controller, started where there is none, then with its ``own`` options."""
    chosen = of(ControllerOptions, own)
    traced = traced or TracingConfig()
    if traced.enabled:
        required("opentelemetry.sdk.trace", "Tracing")
    calls = (grpc or gRPCOptions()).resolved()
    if not ray.is_initialized():
        ray.init(namespace=specs.NAMESPACE)
    found = running()
    if found is not None:
        if own is not None:
            logger.warning("Serve runs already: `controller_options` have no effect.")
        if calls.methods and not ray.get(found.has_methods.remote(calls.methods)):
            logger.warning(
                "Serve runs already, without these servicers: `grpc_options` have no effect until "
                "serve.shutdown() and another start."
            )
        return found
    made = (
        ray.remote(controller_actor.ServeController)
        .options(
            name=specs.CONTROLLER_NAME,
            namespace=specs.NAMESPACE,
            lifetime="detached",
            num_cpus=0,
            max_concurrency=_CALLS_MAX,
            max_restarts=-1,
            max_task_retries=-1,
            resources={"node:__internal_head__": 0.001},
            runtime_env=chosen.runtime_env or None,
            get_if_exists=True,
        )
        .remote(options or HTTPOptions(), location, logged, calls, traced)
    )
    try:
        ray.get(made.start.remote())
    except Exception as error:
        ray.kill(made)
        raise RuntimeError(str(getattr(error, "cause", error))) from None
    return made


def running() -> Any:
    """The controller, or ``None`` where Serve does not run on the cluster."""
    try:
        return ray.get_actor(specs.CONTROLLER_NAME, namespace=specs.NAMESPACE)
    except ValueError:
        return None


def _required() -> Any:
    found = running() if ray.is_initialized() else None
    if found is None:
        raise RayServeException(
            "There is no Serve instance running on this cluster. serve.run starts one."
        )
    return found


def run(
    target: Application,
    blocking: bool = False,
    name: str = "default",
    route_prefix: str | None = "/",
    logging_config: Any = None,
    _local_testing_mode: bool = False,
    external_scaler_enabled: bool = False,
    controller_options: Any = None,
) -> DeploymentHandle:
    """Deploy an application and wait until it runs; a handle to its first deployment.

    ``route_prefix``: where it answers over HTTP, ``None``: nowhere. With ``blocking`` this waits for Ctrl-C.
    With ``_local_testing_mode``, or RAY_SERVE_FORCE_LOCAL_TESTING_MODE=1 in the environment, it runs within
    this process and answers its handle alone. With ``external_scaler_enabled`` requests to the head's HTTP
    server say how many replicas its deployments have; raises ``ValueError`` where one has an
    ``autoscaling_config``.
    Raises ``RuntimeError`` with the constructor's traceback when it does not start.
    """
    one = RunTarget(target, name, route_prefix, logging_config, external_scaler_enabled)
    return run_many(
        [one],
        blocking,
        _local_testing_mode=_local_testing_mode,
        controller_options=controller_options,
    )[0]


def run_many(
    targets: Sequence[RunTarget],
    blocking: bool = False,
    wait_for_ingress_deployment_creation: bool = True,
    wait_for_applications_running: bool = True,
    _local_testing_mode: bool = False,
    controller_options: Any = None,
) -> list[DeploymentHandle]:
    """Deploy several applications; as ``run``."""
    if not targets:
        raise ValueError("No applications provided.")
    if _local_testing_mode or settings.flag("SERVE_FORCE_LOCAL_TESTING_MODE"):
        if blocking:
            raise ValueError("In local testing mode serve.run does not block.")
        return [local.run(one.target, one.name) for one in targets]
    apps = []
    for one in targets:
        if not one.name:
            raise RayServeException("Application name must a non-empty string.")
        app = build(one.target, one.name, one.route_prefix)
        app = specs.scaled_from_outside(app, one.external_scaler_enabled)
        apps.append(specs.with_logging(app, one.logging_config))
    found = controller(own=controller_options)
    ray.get(found.deploy.remote(apps))
    if wait_for_applications_running:
        for app in apps:
            status, why = ray.get(found.wait_for.remote(app.name))
            if status is not ApplicationStatus.RUNNING:
                raise RuntimeError(f"Deploying application {app.name} failed: {why}")
    handles = [DeploymentHandle(app.ingress, app.name) for app in apps]
    if blocking:
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            shutdown()
    return handles


def delete(name: str, _blocking: bool = True) -> None:
    """Delete an application and wait until its replicas have ended."""
    done = _required().delete.remote([name])
    if _blocking:
        ray.get(done)


def status() -> ServeStatus:
    """The state of the applications and of the HTTP servers; empty where Serve does not run."""
    found = running() if ray.is_initialized() else None
    return ServeStatus() if found is None else ray.get(found.status.remote())


def shutdown() -> None:
    """Delete all applications and end Serve; without effect where it does not run."""
    found = running() if ray.is_initialized() else None
    if found is None:
        return
    ray.get(found.shutdown.remote())
    forget_all()
    ray.kill(found)


async def shutdown_async() -> None:
    """As ``shutdown``, for event loops."""
    found = running() if ray.is_initialized() else None
    if found is None:
        return
    await found.shutdown.remote()
    forget_all()
    ray.kill(found)


def get_app_handle(name: str) -> DeploymentHandle:
    """A handle to an application's first deployment. Raises ``RayServeException`` if there is none."""
    found = ray.get(_required().route_of.remote(name))
    if found is None:
        raise RayServeException(f"Application '{name}' does not exist.")
    return DeploymentHandle(found[0], name)


def get_deployment_handle(
    deployment_name: str,
    app_name: str | None = None,
    _check_exists: bool = True,
    _record_telemetry: bool = True,
) -> DeploymentHandle:
    """A handle to a deployment; within a replica ``app_name`` is its own application by default.

    Raises ``KeyError`` if there is none, ``RayServeException`` without an ``app_name`` outside of a replica.
    """
    from heliostat.serve import context

    if app_name is None:
        if not context.in_replica():
            raise RayServeException("Outside of a replica get_deployment_handle needs an app_name.")
        app_name = context.get_replica_context().app_name
    key = DeploymentID(app_name, deployment_name)
    if _check_exists and not ray.get(_required().has.remote(key)):
        raise KeyError(f"{key} does not exist.")
    return DeploymentHandle(deployment_name, app_name)
