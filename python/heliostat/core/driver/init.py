"""``init`` and ``shutdown``.

What a daemon takes to start is most of what ``init`` takes, so nothing is imported here that is not
needed before it is started; the rest of the package is loaded while it starts.
"""

from __future__ import annotations

import dataclasses
import logging
import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from heliostat import _heliostat
from heliostat.core import session
from heliostat.core.driver import address as addresses
from heliostat.core.driver import ray_config, submission, uv_run
from heliostat.core.driver.daemon import NodeOptions
from heliostat.core.driver.job import JobConfig
from heliostat.core.platform import auth, settings
from heliostat.core.platform import logging_config as logs
from heliostat.core.platform.labels import check_labels, override_labels

if TYPE_CHECKING:
    from heliostat.core.driver.context import RayContext
    from heliostat.core.platform.logging_config import LoggingConfig
    from heliostat.core.runtime_env.document import RuntimeEnv

OBJECT_STORE_BYTES_MIN = 75 << 20
DASHBOARD_PORT = 8265
# The largest amount of a resource of a node, as on Ray.
QUANTITY_MAX = 1e14

# Keywords beside the documented ones: those that a daemon takes, those that would change something
# that it does not have, and those that make no difference to anybody.
_OF_THE_DAEMON = (
    "_temp_dir",
    "_node_ip_address",
    "_node_name",
    "_memory",
    "_metrics_export_port",
    "object_spilling_directory",
    "_system_config",
)
_WITHOUT_EFFECT = ("_plasma_directory",)
_IGNORED = (
    "_credentials",
    "_metadata",
    "_driver_object_store_memory",
    "_enable_object_reconstruction",
    "_redis_max_memory",
    "_redis_password",
    "_redis_username",
    "_skip_env_hook",
)
_HIDDEN = (*_OF_THE_DAEMON, *_WITHOUT_EFFECT, *_IGNORED, "_tracing_startup_hook")

logger = logging.getLogger("heliostat")


def init(
    address: str | None = None,
    *,
    num_cpus: float | None = None,
    num_gpus: float | None = None,
    resources: dict[str, float] | None = None,
    labels: dict[str, str] | None = None,
    object_store_memory: float | None = None,
    local_mode: bool = False,
    ignore_reinit_error: bool = False,
    include_dashboard: bool | None = None,
    dashboard_host: str = "127.0.0.1",
    dashboard_port: int | None = None,
    job_config: JobConfig | Mapping[str, Any] | None = None,
    configure_logging: bool = True,
    logging_level: int | str = "info",
    logging_format: str | None = None,
    logging_config: LoggingConfig | None = None,
    log_to_driver: bool | None = None,
    namespace: str | None = None,
    runtime_env: Mapping[str, Any] | RuntimeEnv | None = None,
    enable_resource_isolation: bool = False,
    cgroup_path: str | None = None,
    system_reserved_cpu: float | None = None,
    system_reserved_memory: int | None = None,
    proxy_server_url: str | None = None,
    **kwargs: Any,
) -> RayContext:
    """Connect to a cluster, or start one on this machine and connect to it.

    ``address=None`` connects to the cluster that RAY_ADDRESS names or that ``heliostat start`` made
    here, and starts one where there is none; ``"auto"`` never starts one, ``"local"`` always does,
    ``"host:port"`` means that cluster, on one of whose machines this is. ``"ray://host:port"`` is the
    cluster whose head has that port for drivers on other machines (default 10001), and so is
    ``"heliostat://host:port"``.

    Args:
        address: Which cluster, as above.
        num_cpus: CPUs of the node that is started. Default: those of the machine.
        num_gpus: Its GPUs. Default: those that are found.
        resources: Its further resources, amounts by name.
        labels: Its labels, by name.
        object_store_memory: Bytes of its object store, at least 75 MiB. Default: 30 % of the machine's
            memory.
        local_mode: Refused.
        ignore_reinit_error: Keep the session that runs already, instead of raising.
        include_dashboard: Serve the dashboard (jobs, state, logs) of a cluster that is started.
        dashboard_host: The address it listens at. Default: this machine alone.
        dashboard_port: Its port. Default: 8265, or the next free one.
        job_config: A ``JobConfig``, or a dictionary of its fields.
        configure_logging: Set up the package's logger.
        logging_level: Of that logger; a number or a name. Default ``"info"``.
        logging_format: Of its lines.
        logging_config: A ``LoggingConfig`` for driver and workers.
        log_to_driver: Show here what workers print. Default: yes.
        namespace: Where named actors are looked up. Default: one of this job alone.
        runtime_env: The environment of workers; a dictionary, or a ``RuntimeEnv``.
        enable_resource_isolation: Refused, as the three that follow.
        cgroup_path: Refused.
        system_reserved_cpu: Refused.
        system_reserved_memory: Refused.
        proxy_server_url: Has no effect.
        **kwargs: Options of Ray that begin with ``_``, such as ``_temp_dir`` (the folder of sessions),
            ``_memory`` (bytes that the node offers) and ``_system_config``;
            ``object_spilling_directory``; and ``allow_multiple`` for ``ray://`` (True: beside other
            connections). A warning names those without effect.
            Default: no. What is asked there needs the token.

    Returns:
        A context with the addresses, a ``ClientContext`` for ``ray://``; ``with init():`` ends the
        session with the block.

    Raises:
        RuntimeError: A session runs already, or a keyword is unknown.
        ConnectionError: There is no cluster at the address.
        ValueError: A quantity that no node can have, or one for a cluster that runs already.
        NotImplementedError: Isolation by cgroups is asked for.
        TypeError: An argument has another type.

    Examples:
        >>> import ray
        >>> context = ray.init(num_cpus=2, ignore_reinit_error=True)
        >>> ray.is_initialized()
        True
    """
    allow_multiple = bool(kwargs.pop("allow_multiple", False))
    _refuse_unknown(kwargs, local_mode)
    if enable_resource_isolation or cgroup_path or system_reserved_cpu or system_reserved_memory:
        raise NotImplementedError("resource isolation by cgroups is not in this release")
    if configure_logging:
        logs.set_up(settings.text("LOGGER_LEVEL") or logging_level, logging_format)
    settings.check()
    gateway = _gateway(address)
    if allow_multiple and gateway is None:
        raise RuntimeError(
            "`allow_multiple` is for drivers outside their clusters: give an address such as "
            "ray://head.example.com:10001, or leave it out."
        )
    if not allow_multiple and session.is_initialized():
        return _again(ignore_reinit_error)
    if gateway is not None and not allow_multiple and session.afar():
        raise ValueError(
            "The client has already connected to the cluster with allow_multiple=True. Please set "
            "allow_multiple=True to proceed"
        )

    idle = [name for name in _WITHOUT_EFFECT if kwargs.get(name)]
    if idle:
        logger.warning("Without effect in this release of Heliostat: %s", ", ".join(idle))
    job = _job(job_config, namespace, runtime_env)
    encoding = settings.text("LOGGING_CONFIG_ENCODING")
    if logging_config is not None:
        job.set_py_logging_config(logging_config)
    elif encoding and job.py_logging_config is None:
        job.set_py_logging_config(logs.LoggingConfig(encoding=encoding))
    temp_dir = settings.temp_dir(kwargs.get("_temp_dir"))
    found = addresses.resolve(address, temp_dir) if gateway is None else None
    if gateway is None and found is None:
        options = _node_options(num_cpus, num_gpus, resources, labels, object_store_memory, kwargs)
        if include_dashboard:
            options = _with_dashboard(options, dashboard_host, dashboard_port)
        with ray_config.set_for_this_process(options.env):
            try:
                begun = session.begin(options, job, _log_to_driver(log_to_driver))
            except session.BegunTwiceError:
                return _again(ignore_reinit_error)
        page = "" if include_dashboard else " (`heliostat dashboard` opens its page)"
        logger.info("Started a local Heliostat instance: %s%s", begun.address.session_dir, page)
    else:
        given = {
            "num_cpus": num_cpus,
            "num_gpus": num_gpus,
            "resources": resources,
            "labels": labels,
            "object_store_memory": object_store_memory,
            "_system_config": kwargs.get("_system_config"),
        }
        refused = [name for name, value in given.items() if value is not None]
        if refused:
            raise ValueError(
                "When connecting to an existing cluster, "
                f"{' and '.join(refused)} must not be provided."
            )
        node = found or NodeOptions(head=False, gateway=gateway, owned=True, temp_dir=temp_dir)
        try:
            begun = session.begin(node, job, _log_to_driver(log_to_driver), beside=allow_multiple)
        except session.BegunTwiceError:
            return _again(ignore_reinit_error)
        logger.info("Connected to the cluster at %s", begun.address.control_address)
    hook = kwargs.get("_tracing_startup_hook") or settings.text("TRACING_STARTUP_HOOK")
    _trace(hook or begun.address.tracing_startup_hook, begun)
    if job.py_logging_config is not None:
        job.py_logging_config.apply()
    with session.chosen(begun.epoch):
        return _context()


def _gateway(address: str | None) -> str | None:
    named = settings.text("ADDRESS") if address in (None, "auto") else address
    if not named or "://" not in named:
        return None
    from heliostat.core.driver import remote

    return remote.gateway(named)


def _context() -> RayContext:
    here = session.current()
    if here is not None and here.address.entrance is not None:
        from heliostat.core.driver import remote

        context: Any = remote.context(here)
        return cast("RayContext", context)
    from heliostat.core.driver.context import RayContext

    return RayContext(session.info(), shutdown)


def _refuse_unknown(hidden: Mapping[str, Any], local_mode: bool) -> None:
    if local_mode:
        raise RuntimeError(
            "`local_mode` is no longer supported. Run the functions directly, or debug them in a "
            "worker."
        )
    if "storage" in hidden:
        raise RuntimeError(
            "Cluster-wide storage configuration has been removed: there is no `storage` argument."
        )
    unknown = [name for name in hidden if name not in _HIDDEN]
    if unknown:
        import inspect

        from heliostat.core.platform.spelling import did_you_mean

        known = inspect.signature(init).parameters
        hints = "".join(did_you_mean(name, known) for name in unknown)
        raise RuntimeError(f"Unknown keyword argument(s): {', '.join(unknown)}.{hints}")


def _trace(hook: str | None, begun: session.Session) -> None:
    """Have calls traced, where there is a hook; without it the session would not do what was asked for."""
    if not hook:
        return
    from heliostat.core.debug import tracing

    try:
        tracing.start(hook)
    except BaseException:
        with session.chosen(begun.epoch):
            session.end()
        raise


def _again(ignore: bool) -> RayContext:
    if not ignore:
        raise session.begun_twice()
    logger.info("Calling ray.init() again after it has already been called.")
    return _context()


def _job(
    given: JobConfig | Mapping[str, Any] | None,
    namespace: str | None,
    runtime_env: Mapping[str, Any] | None,
) -> JobConfig:
    if not isinstance(given, JobConfig | Mapping | None):
        raise TypeError(f"job_config must be a JobConfig or a dictionary, got {type(given)}")
    job = given if isinstance(given, JobConfig) else JobConfig.from_json(given or {})
    if runtime_env is not None:
        _check_runtime_env(runtime_env)
        job.set_runtime_env(runtime_env)
    submission.take_over(job, runtime_env)
    if more := uv_run.fields(job.runtime_env):
        job.set_runtime_env({**more, **job.runtime_env})
    if job.runtime_env:
        _check_runtime_env(job.runtime_env)
    name = (
        namespace
        if namespace is not None
        else job.ray_namespace or settings.text("NAMESPACE") or None
    )
    if name is not None:
        if not isinstance(name, str):
            raise TypeError("namespace must be None or a string.")
        if name == "":
            raise ValueError('"" is not a valid namespace. Pass None to not specify a namespace.')
        job.set_ray_namespace(name)
    return job


def _check_runtime_env(given: Mapping[str, Any]) -> None:
    from heliostat.core.runtime_env.document import check_runtime_env  # most drivers have none

    check_runtime_env(given)


def _log_to_driver(given: bool | None) -> bool:
    if settings.flag("LOG_TO_STDERR"):
        return True
    return settings.flag("LOG_TO_DRIVER") if given is None else bool(given)


def _node_options(
    num_cpus: float | None,
    num_gpus: float | None,
    resources: Mapping[str, float] | None,
    labels: Mapping[str, str] | None,
    object_store_memory: float | None,
    hidden: Mapping[str, Any],
) -> NodeOptions:
    spill = hidden.get("object_spilling_directory")
    config = ray_config.check(hidden.get("_system_config"))
    ray_config.warn_of_variables()
    wanted = NodeOptions(
        owned=True,
        num_cpus=num_cpus,
        num_gpus=num_gpus,
        memory=hidden.get("_memory"),
        object_store_memory=store_bytes(object_store_memory),
        resources=dict(resources or {}),
        labels=check_labels(labels) | override_labels(),
        node_ip_address=hidden.get("_node_ip_address"),
        node_name=hidden.get("_node_name"),
        metrics_export_port=hidden.get("_metrics_export_port"),
        temp_dir=settings.temp_dir(hidden.get("_temp_dir")),
        spill_dir=Path(spill).absolute() if spill else ray_config.spilling_folder(config),
        env=ray_config.environment(config),
    )
    check_node_options(wanted)
    return wanted


def _with_dashboard(options: NodeOptions, host: str, port: int | None) -> NodeOptions:
    if port is not None and not 0 <= port <= 65535:
        raise ValueError(f"dashboard_port is a port between 0 and 65535, got {port!r}")
    if auth.is_disabled():
        logger.warning(
            "RAY_AUTH_MODE=disabled: the dashboard (at %s) asks for no token. Whoever reaches it can "
            "run any code as this user.",
            host,
        )
    address = f"{host}:{DASHBOARD_PORT if port is None else port}"
    return dataclasses.replace(options, dashboard=address, dashboard_port_moves=port is None)


def store_bytes(given: Any) -> int | None:
    """``object_store_memory``: a number of bytes, of which a fraction is cut."""
    if given is None:
        return None
    if not isinstance(given, int | float) or not math.isfinite(given):
        raise TypeError(f"object_store_memory is a number of bytes, got {given!r}")
    return int(given)


def check_node_options(options: NodeOptions) -> None:
    """Refuse quantities that no node can have, in the words users know."""
    named = {"CPU": options.num_cpus, "GPU": options.num_gpus, **options.resources}
    for name in ("CPU", "GPU", "memory", "object_store_memory"):
        if name in options.resources:
            keyword = {"CPU": "num_cpus", "GPU": "num_gpus"}.get(name, name)
            raise AssertionError(
                f"{dict(options.resources)} -> `{name}` cannot be a custom resource because it is "
                f"one of the default resources. Use `{keyword}` instead."
            )
    for kind, variable, visible, _ in _heliostat.device_kinds():
        number = named.get(kind)
        if number and visible is not None and number > len(visible):
            raise ValueError(
                f"Attempting to start a node with {number:g} {kind}s, but "
                f"{variable} names only {len(visible)}: {visible}."
            )
    for name, quantity in named.items():
        if quantity is None:
            continue
        if isinstance(quantity, bool) or not isinstance(quantity, int | float):
            raise AssertionError(f"{name} ({type(quantity)}): {quantity}")
        if not quantity <= QUANTITY_MAX:  # as it is for NaN
            raise ValueError(
                f"Resource quantities must be at most {QUANTITY_MAX:g}. Violated by resource "
                f"'{name}': {quantity}."
            )
        if quantity < 0:
            raise ValueError(
                f"Resource quantities must be nonnegative. Violated by resource '{name}' in "
                f"{ {n: q for n, q in named.items() if q is not None} }."
            )
    size = options.object_store_memory
    if size is not None and size < OBJECT_STORE_BYTES_MIN:
        raise ValueError(
            f"Attempting to cap object store memory usage at {size} bytes, "
            f"but the minimum allowed is {OBJECT_STORE_BYTES_MIN} bytes."
        )


def shutdown(*, wait_for_processes: bool = False, _exiting_interpreter: bool = False) -> None:
    """Leave the cluster; end it if ``init`` started it. Nothing happens where there is no session.

    References and handles of the session are of no use afterwards. ``init`` begins another session.

    Args:
        wait_for_processes: Has no effect.

    Examples:
        >>> import ray
        >>> ray.shutdown()  # doctest: +SKIP
    """
    session.end()
