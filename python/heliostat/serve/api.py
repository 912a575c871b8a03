"""The functions of ``serve``."""

from __future__ import annotations

import dataclasses
import logging
import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import heliostat as ray
from heliostat.core.platform import settings
from heliostat.core.platform.extras import required
from heliostat.core.platform.sessions import begin_unless_begun
from heliostat.serve import local, specs
from heliostat.serve.controller import actor as controller_actor
from heliostat.serve.deployment import UNSET, Application, Deployment, build, configured
from heliostat.serve.deployment_config import DeploymentConfig
from heliostat.serve.exceptions import RayServeException
from heliostat.serve.handle import DeploymentHandle
from heliostat.serve.options import (
    ControllerOptions,
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
    """An application for ``serve.run_many``.

    Attributes:
        target: What ``Deployment.bind`` returned.
        name: The application's name. Default ``"default"``.
        route_prefix: Where it answers over HTTP. Default ``"/"``; ``None``: nowhere.
        logging_config: A ``LoggingConfig`` of the replicas that have none of their own.
        external_scaler_enabled: As of ``serve.run``.

    Examples:
        >>> from ray import serve
        >>> @serve.deployment
        ... def echo(text):
        ...     return text
        >>> first = serve.RunTarget(echo.bind(), name="first", route_prefix=None)
        >>> second = serve.RunTarget(echo.bind(), name="second", route_prefix=None)
        >>> handles = serve.run_many([first, second])
        >>> [handle.remote("a").result() for handle in handles]
        ['a', 'a']
        >>> serve.delete("first"), serve.delete("second")
        (None, None)
    """

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
    """Make a deployment of a class or function: ``@serve.deployment``, or with options.

    An update replaces replicas: by default a fifth more than the target start before old ones stop.

    Args:
        name: Its name. Default: that of the class or function.
        version: Replicas of the same version and options are kept by an update. Default: the code
            decides.
        num_replicas: How many replicas; ``"auto"``: as many as the load needs. Default 1.
        ray_actor_options: ``num_cpus`` (default 1), ``num_gpus``, ``memory``, ``resources``,
            ``runtime_env`` and others of each replica's actor.
        placement_group_bundles: A placement group for each replica, which runs in its first bundle.
            Default: none.
        placement_group_strategy: The group's, such as ``"PACK"``.
        placement_group_bundle_label_selector: For each bundle, what the labels of its node must be.
        max_replicas_per_node: How many replicas a node has at most. Default: any number.
        user_config: What the method ``reconfigure`` of each replica gets: JSON. A change of it alone
            restarts none.
        max_ongoing_requests: How many requests a replica has at a time. Default 5.
        max_queued_requests: How many wait beyond that; others are refused. Default -1: any number.
        backpressure_config: What HTTP clients are told that are refused: a ``BackpressureConfig``.
            Default: 503.
        autoscaling_config: An ``AutoscalingConfig`` or a dict of its fields, instead of
            ``num_replicas``.
        graceful_shutdown_wait_loop_s: Seconds between two looks whether a replica that stops has
            requests. Default 2.
        graceful_shutdown_timeout_s: Seconds that its requests have to end. Default 20.
        health_check_period_s: Seconds between two health checks. Default 10.
        health_check_timeout_s: Seconds that one may take. Default 30.
        logging_config: A ``LoggingConfig`` or a dict of its fields. Default: Serve's.
        request_router_config: Which replica a handle's call goes to: a ``RequestRouterConfig``.
            Default: the one with the fewest requests.
        max_constructor_retry_count: How often constructors are tried before the deployment has failed.
            Default 20.
        gang_scheduling_config: Replicas that start and end together: a ``GangSchedulingConfig``.
            Default: none.
        deployment_actors: Actors that the replicas share: a list of ``DeploymentActorConfig``. Default:
            none.
        rolling_update_percentage: With ``max_surge_percent=0``: the fraction of the target that stops
            before new replicas start. Default 0.2.
        max_surge_percent: How many more than the target may run during an update, in percent of it.
            Default 20.

    Returns:
        A ``Deployment``, or a decorator that makes one.

    Raises:
        ValueError: An option cannot be so.
        NotImplementedError: Heliostat does not have the option.

    Examples:
        >>> from ray import serve
        >>> @serve.deployment(num_replicas=1, max_ongoing_requests=10)
        ... class Adder:
        ...     def __init__(self, n):
        ...         self.n = n
        ...     def __call__(self, x):
        ...         return self.n + x
        >>> app = Adder.bind(1)
    """
    # The arguments alone: no other local stands above this line.
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

    Args:
        proxy_location: On which nodes HTTP servers run: ``"HeadOnly"`` (the default), ``"EveryNode"``
            or ``"Disabled"``.
        http_options: ``HTTPOptions`` or a dict of its fields. Default: 127.0.0.1:8000.
        grpc_options: ``gRPCOptions`` or a dict of its fields. Default: there is no gRPC server.
        logging_config: A ``LoggingConfig`` of the replicas that have none of their own, or a dict of
            its fields.
        tracing_config: A ``TracingConfig`` or a dict of its fields.
        controller_options: ``{"runtime_env": {"env_vars": …}}`` of Serve's controller, where it is
            started now.
        **kwargs: Refused.

    Raises:
        RuntimeError: The port is taken, or a file of TLS is of no use.
        ValueError: There is no such parameter, or an option cannot be so.
        ModuleNotFoundError: A function of ``grpc_servicer_functions`` is not there.
        ImportError: OpenTelemetry's SDK is missing.

    Examples:
        >>> from ray import serve
        >>> serve.start(http_options={"host": "127.0.0.1", "port": 8000})
    """
    if kwargs:
        raise ValueError(f"serve.start has no parameters {sorted(kwargs)}.")
    options = of(HTTPOptions, http_options)
    for name in ("ssl_keyfile", "ssl_certfile", "ssl_ca_certs"):
        path = getattr(options, name)
        if path and os.path.exists(path):  # here, where the server's folder is another
            options = dataclasses.replace(options, **{name: os.path.abspath(path)})
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
    begin_unless_begun(namespace=specs.NAMESPACE)
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
            _preload=specs.PRELOADED,
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
    """Deploy an application and wait until it runs.

    With ``_local_testing_mode``, or RAY_SERVE_FORCE_LOCAL_TESTING_MODE=1 in the environment, it runs within
    this process and answers its handle alone.

    Args:
        target: What ``Deployment.bind`` returned.
        blocking: Wait for Ctrl-C. Default False.
        name: The application's name. Another one of that name is replaced. Default ``"default"``.
        route_prefix: Where it answers over HTTP. Default ``"/"``; ``None``: nowhere.
        logging_config: A ``LoggingConfig`` of the replicas that have none of their own, or a dict of
            its fields.
        external_scaler_enabled: Requests to the head's HTTP server say how many replicas its
            deployments have. Default False.
        controller_options: ``{"runtime_env": {"env_vars": …}}`` of Serve's controller, where it is
            started now.

    Returns:
        A handle to its first deployment.

    Raises:
        RuntimeError: It does not start; the constructor's traceback is in the text.
        ValueError: ``external_scaler_enabled``, and a deployment has an ``autoscaling_config``.

    Examples:
        >>> from ray import serve
        >>> @serve.deployment
        ... class Greeter:
        ...     def __call__(self, name):
        ...         return f"Hello {name}"
        ...     def shout(self, name):
        ...         return f"HELLO {name.upper()}"
        >>> handle = serve.run(Greeter.bind(), name="greeter", route_prefix=None)
        >>> handle.remote("you").result()
        'Hello you'
        >>> handle.shout.remote("you").result()
        'HELLO YOU'
        >>> serve.status().applications["greeter"].status.value
        'RUNNING'
        >>> serve.delete("greeter")
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
    """Deploy several applications.

    Args:
        targets: The applications, each with its own arguments of ``serve.run``.
        blocking: Wait for Ctrl-C. Default False.
        wait_for_ingress_deployment_creation: Return when their first deployments are known. Default
            True.
        wait_for_applications_running: Return when they run. Default True.
        controller_options: ``{"runtime_env": {"env_vars": …}}`` of Serve's controller, where it is
            started now.

    Returns:
        A handle to the first deployment of each.

    Raises:
        RayServeException: Two have the same name or route.
        RuntimeError: One does not start.
        ValueError: There is no application.

    Examples:
        >>> from ray import serve
        >>> @serve.deployment
        ... def hello(name):
        ...     return f"Hello {name}"
        >>> @serve.deployment
        ... def bye(name):
        ...     return f"Bye {name}"
        >>> handles = serve.run_many([
        ...     serve.RunTarget(hello.bind(), name="hello", route_prefix=None),
        ...     serve.RunTarget(bye.bind(), name="bye", route_prefix=None),
        ... ])
        >>> [handle.remote("you").result() for handle in handles]
        ['Hello you', 'Bye you']
        >>> serve.delete("hello")
        >>> serve.delete("bye")
    """
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
    """Delete an application and wait until its replicas have ended.

    Args:
        name: The application's name. Nothing happens if there is none.

    Examples:
        >>> from ray import serve
        >>> @serve.deployment
        ... def hello(name):
        ...     return f"Hello {name}"
        >>> _ = serve.run(hello.bind(), name="hello", route_prefix=None)
        >>> serve.delete("hello")
        >>> "hello" in serve.status().applications
        False
    """
    done = _required().delete.remote([name])
    if _blocking:
        ray.get(done)


def status() -> ServeStatus:
    """The state of the applications and of the HTTP servers; empty where Serve does not run.

    Examples:
        >>> from ray import serve
        >>> @serve.deployment
        ... def hello(name):
        ...     return f"Hello {name}"
        >>> _ = serve.run(hello.bind(), name="hello", route_prefix=None)
        >>> app = serve.status().applications["hello"]
        >>> app.status.value, app.deployments["hello"].status.value
        ('RUNNING', 'HEALTHY')
        >>> serve.delete("hello")
    """
    found = running() if ray.is_initialized() else None
    return ServeStatus() if found is None else ray.get(found.status.remote())


def shutdown() -> None:
    """Delete all applications and end Serve; without effect where it does not run.

    Examples:
        >>> from ray import serve
        >>> def stop_all():
        ...     serve.shutdown()  # the next serve.run begins Serve anew
    """
    found = running() if ray.is_initialized() else None
    if found is None:
        return
    ray.get(found.shutdown.remote())
    forget_all()
    ray.kill(found)


async def shutdown_async() -> None:
    """As ``shutdown``, for event loops.

    Examples:
        >>> from ray import serve
        >>> async def main(app):
        ...     serve.run(app)
        ...     try:
        ...         ...  # work
        ...     finally:
        ...         await serve.shutdown_async()
    """
    found = running() if ray.is_initialized() else None
    if found is None:
        return
    await found.shutdown.remote()
    forget_all()
    ray.kill(found)


def get_app_handle(name: str) -> DeploymentHandle:
    """Return a handle to an application's first deployment.

    Args:
        name: The application's name.

    Raises:
        RayServeException: There is no such application.

    Examples:
        >>> from ray import serve
        >>> @serve.deployment
        ... def hello(name):
        ...     return f"Hello {name}"
        >>> _ = serve.run(hello.bind(), name="hello", route_prefix=None)
        >>> serve.get_app_handle("hello").remote("you").result()
        'Hello you'
        >>> serve.get_deployment_handle("hello", app_name="hello").remote("all").result()
        'Hello all'
        >>> serve.delete("hello")
    """
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
    """Return a handle to a deployment.

    Args:
        deployment_name: The deployment's name.
        app_name: The application. Default: within a replica, its own.

    Raises:
        KeyError: There is no such deployment.
        RayServeException: There is no ``app_name``, and this process is not a replica.

    Examples:
        >>> from ray import serve
        >>> @serve.deployment
        ... def hello(name):
        ...     return f"Hello {name}"
        >>> _ = serve.run(hello.bind(), name="greeting", route_prefix=None)
        >>> serve.get_deployment_handle("hello", app_name="greeting").remote("you").result()
        'Hello you'
        >>> serve.delete("greeting")
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
