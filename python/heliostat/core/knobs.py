"""Knobs of Ray's runtime, as ``_system_config`` and ``RAY_x`` name them: which act here, and why not.

Those in :data:`ACTING` act; :data:`IDLE` says of the others why they do not. Values that act reach
the daemon, its workers and this driver as environment variables, which is also how users may set
them.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from heliostat import _heliostat
from heliostat.core import settings
from heliostat.core.hints import did_you_mean
from heliostat.core.knobs_of_ray import OTHERS

logger = logging.getLogger("heliostat")

_TEST = "it is for tests of Ray's own code"
_GROWS = "workers are started and ended as calls need them"
_STORAGE = "spilled objects are one file each, written as soon as memory is short"
_METRICS = "measurements are taken when they are asked for, and cost nothing until then"
_EVENTS = "tasks are asked of those who know them, not recorded in one place"
_LOCAL = "messages go over connections that stay open, without calls that time out one by one"

ACTING = frozenset(_heliostat.knobs())
"""Names that act: they are settings, which ``docs/settings.md`` lists."""

_IDLE: dict[str, str] = {
    # Memory of the machine.
    "min_memory_free_bytes": "only the part counts: memory_usage_threshold",
    "task_oom_retries": "what memory ended is tried again, at growing intervals, without end",
    "task_oom_retry_delay_base_ms": "the first wait is one second, and doubles",
    "worker_killing_policy": "the newest call that may be tried again ends first",
    # Values and the calls that made them.
    "lineage_pinning_enabled": "finished calls are remembered up to max_lineage_bytes",
    "max_direct_call_object_size": "values below 100 KiB travel with their call",
    "task_rpc_inlined_bytes_limit": "values below 100 KiB travel with their call",
    "task_retry_delay_ms": "a call is tried again as soon as a worker is free",
    "fetch_warn_timeout_milliseconds": "`heliostat why` says what a read waits for",
    "fetch_fail_timeout_milliseconds": "a value is lost when its last copy is, not by time",
    # The object store and the disk behind it.
    "automatic_object_spilling_enabled": "a full store always spills",
    "object_spilling_threshold": "spilling begins when the store is four fifths full",
    "min_spilling_size": _STORAGE,
    "max_fused_object_count": _STORAGE,
    "max_spilling_file_size_bytes": _STORAGE,
    "object_store_full_delay_ms": "who waits for room has it as soon as it is there",
    "preallocate_plasma_memory": "memory of the store is taken when it is written",
    "object_timeout_milliseconds": _LOCAL,
    "object_manager_default_chunk_size": _LOCAL,
    "object_manager_pull_timeout_ms": _LOCAL,
    "object_manager_max_bytes_in_flight": _LOCAL,
    "free_objects_period_milliseconds": "objects are freed as soon as nobody holds them",
    "free_objects_batch_size": "objects are freed as soon as nobody holds them",
    "local_gc_interval_s": "objects are freed as soon as nobody holds them",
    "high_plasma_storage_usage": "objects are freed as soon as nobody holds them",
    # Who is alive.
    "num_heartbeats_timeout": "health_check_failure_threshold says it",
    "raylet_heartbeat_period_milliseconds": "health_check_period_ms says it",
    "raylet_death_check_interval_milliseconds": "workers notice at once by their connection",
    "gcs_server_request_timeout_seconds": _LOCAL,
    "gcs_failover_worker_reconnect_timeout": "gcs_rpc_server_reconnect_timeout_s says it",
    "timeout_ms_task_wait_for_death_info": "the daemon knows why a process ended",
    # Workers and where calls go.
    "worker_register_timeout_seconds": _GROWS,
    "num_workers_soft_limit": _GROWS,
    "idle_worker_killing_time_threshold_ms": _GROWS,
    "kill_idle_workers_interval_ms": _GROWS,
    "prestart_worker_first_driver": _GROWS,
    "enable_worker_prestart": _GROWS,
    "worker_maximum_startup_concurrency": _GROWS,
    "maximum_startup_concurrency": _GROWS,
    "worker_lease_timeout_milliseconds": "a worker is kept while its calls keep coming",
    "worker_cap_enabled": _GROWS,
    "scheduler_spread_threshold": "a call runs here while there is room, else elsewhere",
    "scheduler_top_k_fraction": "a call runs here while there is room, else elsewhere",
    "scheduler_top_k_absolute": "a call runs here while there is room, else elsewhere",
    "max_pending_lease_requests_per_scheduling_category": "requests follow the queue",
    "locality_aware_leasing_enabled": "calls go to their large arguments",
    # What is seen from outside.
    "event_stats": _METRICS,
    "event_stats_print_interval_ms": _METRICS,
    "metrics_report_interval_ms": _METRICS,
    "enable_metrics_collection": _METRICS,
    "enable_timeline": "the timeline is made when it is asked for",
    "task_events_report_interval_ms": _EVENTS,
    "task_events_max_num_task_in_gcs": _EVENTS,
    "task_events_max_num_task_events_for_master": _EVENTS,
    "record_task_actor_creation_sites": "`heliostat why` names the call that waits",
    "maximum_gcs_dead_node_cached_count": "dead nodes are listed up to a fixed number",
    "maximum_gcs_destroyed_actor_cached_count": "dead actors are listed up to a fixed number",
    "maximum_gcs_storage_operation_batch_size": "the state is one file of the head",
    "gcs_storage": "the state is one file of the head",
    "external_storage_namespace": "the state is one file of the head",
    "enable_autoscaler_v2": "there is no autoscaler in this release",
    "use_ray_syncer": "nodes tell each other of their resources over one connection",
    "testing_asio_delay_us": _TEST,
    "testing_rpc_failure": _TEST,
}

IDLE: Mapping[str, str] = {**OTHERS, **_IDLE}
"""Names of Ray's that do nothing here, and why."""

# These act as variables.
_VARIABLES = frozenset(("max_grpc_message_size",))

_SPILLING = "object_spilling_config"


def check(given: Mapping[str, Any] | None) -> dict[str, Any]:
    """The knobs of ``_system_config``, checked; those that do nothing here are named in a warning.

    Raises ``ValueError`` for a key that Ray does not know.
    """
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise TypeError(f"_system_config must be a dictionary, got {type(given)}")
    for name, value in given.items():
        # What asks for something that is not done here is refused, as in the environment.
        if name not in ACTING:
            _heliostat.check_settings({f"RAY_{name}": str(value)})
        if name not in ACTING and name not in IDLE:
            raise ValueError(
                f"_system_config: unknown key {name!r}."
                f"{did_you_mean(str(name), [*ACTING, *IDLE])} Those that act are "
                f"{', '.join(sorted(ACTING))}."
            )
    _warn([name for name in given if name in IDLE], "_system_config")
    return dict(given)


def warn_of_variables() -> None:
    """Name the knobs that the environment sets and that do nothing here."""
    given = [name for name in IDLE if name not in _VARIABLES and settings.is_given(name)]
    _warn(given, "the environment")


def _warn(names: list[str], where: str) -> None:
    idle = [f"{name} ({IDLE[name]})" for name in names]
    if idle:
        logger.warning("Without effect in Heliostat, set in %s: %s.", where, "; ".join(idle))


def spilling_folder(given: Mapping[str, Any]) -> Path | None:
    """The folder that ``object_spilling_config`` names, there or in the environment."""
    config = given.get(_SPILLING) or settings.text(_SPILLING)
    if not config:
        return None
    try:
        config = json.loads(config) if isinstance(config, str) else config
        kind, params = config["type"], config.get("params", {})
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"{_SPILLING} is JSON such as "
            '{"type": "filesystem", "params": {"directory_path": "/spill"}}, '
            f"got {config!r}: {error!r}"
        ) from error
    if kind != "filesystem":
        raise ValueError(
            f'Unknown external storage type: {kind}. Objects are spilled to a folder: "filesystem".'
        )
    folder = params.get("directory_path")
    if isinstance(folder, list | tuple) and folder:
        if len(folder) > 1:
            logger.warning("Objects are spilled to the first folder of several: %s", folder[0])
        folder = folder[0]
    if not isinstance(folder, str):
        raise ValueError(f"{_SPILLING}: directory_path is a folder, got {folder!r}")
    return Path(folder).absolute()


def environment(given: Mapping[str, Any]) -> dict[str, str]:
    """The variables that pass the knobs on that act."""

    def text(value: Any) -> str:
        if isinstance(value, list | tuple):
            return ",".join(map(str, value))
        return str(int(value)) if isinstance(value, bool) else str(value)

    passed = {name: value for name, value in given.items() if name != _SPILLING}
    return {f"HELIOSTAT_{name}": text(v) for name, v in passed.items() if name in ACTING}


@contextlib.contextmanager
def set_for_this_process(variables: Mapping[str, str]) -> Iterator[None]:
    """This process reads some of them while it connects."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
