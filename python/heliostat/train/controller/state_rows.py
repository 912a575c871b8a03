"""Rows of a run and of its attempts for the whole cluster, kept with ``RAY_TRAIN_ENABLE_STATE_TRACKING=1``.

They lie in the cluster's key-value store, so that they outlive the driver, and the head serves
them at ``/api/train/v2/runs/v1`` in the form that Ray gives them. A row is derived from the record
of the run and written when it has changed. Keys are ``<start>-<run>/run`` and
``<start>-<run>/attempt-<number>``, which sort by age.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import math
import time
import uuid
from collections.abc import Mapping
from typing import Any

import heliostat as ray
from heliostat.core.platform.version import RAY_VERSION
from heliostat.experimental import internal_kv
from heliostat.train.controller.record import AttemptRecord, RunRecord
from heliostat.train.controller.spec import RunSpec
from heliostat.train.group.worker_group import WorkerGroup

# The head's HTTP server reads the same namespace (helio-dashboard, train_routes.rs).
NAMESPACE = "_train_state"
# Runs whose rows are kept in a cluster; those of the oldest go when more begin.
MAX_RUNS = 100
# Attempts of a run whose rows are kept.
MAX_ATTEMPTS = 50
# Levels of nested dicts of the configuration that a row shows.
_MAX_DEPTH = 3
# Modules whose versions a row gives, where they are not named like the framework.
_MODULES = {"jax": ("jax", "jaxlib"), "tensorflow": ("tensorflow", "keras")}

_STATUS = {
    "starting": "INITIALIZING",
    "scheduling": "SCHEDULING",
    "running": "RUNNING",
    "recovering": "RESTARTING",
    "resizing": "RESIZING",
    "finished": "FINISHED",
    "failed": "ERRORED",
    "interrupted": "ABORTED",
}
_INTERRUPTED = "The user interrupted the run (SIGINT)."


class StateRows:
    """Writes the rows of one run; does nothing where nobody asked for them."""

    def __init__(self, spec: RunSpec, record: RunRecord) -> None:
        self._spec = spec
        self._record = record
        self._is_on = spec.settings.state_tracking
        self._place = f"{time.time_ns():020d}-{spec.run_id}"
        self._written: dict[str, bytes] = {}
        self._workers: dict[int, list[dict[str, Any]]] = {}
        self._ids: dict[int, str] = {}
        self._fixed: dict[str, Any] = {}
        self._framework = spec.backend_config.framework

    def begin(self, coordinator: Any) -> None:
        """The run begins; rows of the oldest runs make room for its own."""
        if not self._is_on:
            return
        self._fixed = {
            "id": self._spec.run_id,
            "name": self._record.name,
            "job_id": ray.get_runtime_context().get_job_id(),
            "controller_actor_id": coordinator._actor_id.hex(),
            "controller_log_file_path": None,
            "run_settings": _settings(self._spec),
        }
        keys = internal_kv._internal_kv_list(b"", namespace=NAMESPACE)
        places = sorted({key.rpartition(b"/")[0] for key in keys})
        for place in places[: max(0, len(places) - MAX_RUNS + 1)]:
            internal_kv._internal_kv_del(place + b"/", del_by_prefix=True, namespace=NAMESPACE)
        self.changed()

    def group_started(self, group: WorkerGroup) -> None:
        """The workers of the current attempt have their ranks."""
        if not self._is_on:
            return
        amounts = self._spec.scaling.worker_resources
        self._workers[self._record.attempt.number] = [
            {
                "world_rank": ranks.world_rank,
                "local_rank": ranks.local_rank,
                "node_rank": ranks.node_rank,
                "actor_id": worker.actor._actor_id.hex(),
                "node_id": worker.info.node_id,
                "node_ip": worker.info.node_ip,
                "pid": worker.info.pid,
                "gpu_ids": [int(gpu) for gpu in worker.info.gpu_ids if gpu.isdigit()],
                "status": "ALIVE",
                "resources": {"resources": amounts},
                "log_file_path": None,
            }
            for worker, ranks in zip(group.workers, group.ranks, strict=True)
        ]
        self.changed()

    def changed(self, error: BaseException | None = None) -> None:
        """Write the rows that are not as they were; what has gone wrong, where the run ends by it."""
        if not self._fixed:
            return
        self._write("run", self._run(error))
        for attempt in self._record.attempts[-MAX_ATTEMPTS:]:
            self._write(f"attempt-{attempt.number:06d}", self._attempt(attempt, error))

    def _write(self, name: str, row: dict[str, Any]) -> None:
        text = json.dumps(row).encode()
        if self._written.get(name) == text:
            return
        self._written[name] = text
        # A row that cannot be written does not end the training.
        with contextlib.suppress(ray.exceptions.RayError):
            internal_kv._internal_kv_put(f"{self._place}/{name}", text, namespace=NAMESPACE)
            number = name.rpartition("-")[2]
            if number.isdigit() and int(number) >= MAX_ATTEMPTS:
                oldest = f"{self._place}/attempt-{int(number) - MAX_ATTEMPTS:06d}"
                internal_kv._internal_kv_del(oldest, namespace=NAMESPACE)

    def _run(self, error: BaseException | None) -> dict[str, Any]:
        record = self._record
        detail = None
        if record.state == "scheduling" and record.attempts:
            detail = self._wanted(record.attempt)
        elif record.state == "interrupted":
            detail = _INTERRUPTED
        elif error is not None:
            detail = str(error)
        return {
            **self._fixed,
            "status": _STATUS[record.state],
            "status_detail": detail,
            "start_time_ns": _ns(record.started_at),
            "end_time_ns": _ns(record.finished_at),
            "framework_versions": self._versions(),
        }

    def _attempt(self, attempt: AttemptRecord, error: BaseException | None) -> dict[str, Any]:
        record = self._record
        status, detail = "RUNNING", None
        failure = next((f for f in record.failures if f.attempt == attempt.number), None)
        ended = attempt.ended_at
        if failure is not None:
            status, detail, ended = "ERRORED", failure.detail, ended or failure.time
        elif ended is not None:
            status = "FINISHED"
        elif record.state == "interrupted":
            status, detail, ended = "ABORTED", _INTERRUPTED, record.finished_at
        elif record.state == "failed":
            status, detail, ended = "ERRORED", str(error), record.finished_at
        elif attempt.number not in self._workers:
            status, detail = "PENDING", self._wanted(attempt)
        workers = self._workers.get(attempt.number, [])
        if ended is not None:
            workers = [{**worker, "status": "DEAD"} for worker in workers]
        amounts = self._spec.scaling.worker_resources
        return {
            "run_id": self._spec.run_id,
            "attempt_id": self._ids.setdefault(attempt.number, uuid.uuid4().hex),
            "status": status,
            "status_detail": detail,
            "start_time_ns": _ns(attempt.requested_at),
            "end_time_ns": _ns(ended),
            "resources": [{"resources": amounts}] * attempt.world_size,
            "workers": workers,
        }

    def _wanted(self, attempt: AttemptRecord) -> str:
        amounts = self._spec.scaling.worker_resources
        return f"{attempt.world_size} workers are wanted, each with {amounts}."

    def _versions(self) -> dict[str, str]:
        versions: dict[str, str] = {"ray": RAY_VERSION}
        if self._workers and self._framework is not None:
            for module in _MODULES.get(self._framework, (self._framework,)):
                with contextlib.suppress(importlib.metadata.PackageNotFoundError):
                    versions[module] = importlib.metadata.version(module)
        return versions


def _settings(spec: RunSpec) -> dict[str, Any]:
    """Return the user's choices, in words that JSON has."""
    run, scaling = spec.run_config, spec.scaling
    assert run.failure_config is not None
    assert run.checkpoint_config is not None
    checkpoints = run.checkpoint_config
    options = spec.data_config._execution_options
    by_name = options if isinstance(options, dict) else {}
    default = spec.data_config.default_ingest_options() if by_name or not options else options
    plain = {
        "train_loop_config": spec.job.config,
        "backend_config": {
            "framework": spec.backend_config.framework,
            "config": _shallow(spec.backend_config.to_dict()),
        },
        "scaling_config": {
            "num_workers": scaling.num_workers,
            "use_gpu": scaling.use_gpu,
            "resources_per_worker": scaling.resources_per_worker,
            "placement_strategy": scaling.placement_strategy,
            "accelerator_type": scaling.accelerator_type,
            "use_tpu": scaling.use_tpu,
            "topology": scaling.topology,
            "bundle_label_selector": scaling.label_selector,
        },
        "datasets": list(spec.datasets),
        "data_config": {
            "datasets_to_split": spec.data_config._datasets_to_split,
            "execution_options": None,
            "data_execution_options": {
                "default": _options(default),
                "per_dataset_execution_options": {n: _options(o) for n, o in by_name.items()},
            },
            "enable_shard_locality": spec.data_config._enable_shard_locality,
        },
        "run_config": {
            "name": spec.storage.name,
            "failure_config": {
                "max_failures": run.failure_config.max_failures,
                "controller_failure_limit": run.failure_config.controller_failure_limit,
            },
            "worker_runtime_env": _shallow(run.worker_runtime_env or {}),
            "checkpoint_config": {
                "num_to_keep": checkpoints.num_to_keep,
                "checkpoint_score_attribute": checkpoints.checkpoint_score_attribute,
                "checkpoint_score_order": checkpoints.checkpoint_score_order,
            },
            "storage_path": spec.storage.path.removesuffix(f"/{spec.storage.name}"),
            "storage_filesystem": run.storage_filesystem and str(run.storage_filesystem),
        },
    }
    return {**plain, "train_loop_config": _shallow(plain["train_loop_config"])}


def _options(options: Any) -> dict[str, Any]:
    return {
        "resource_limits": _amounts(options.resource_limits),
        "exclude_resources": _amounts(options.exclude_resources),
        "preserve_order": options.preserve_order,
        "actor_locality_enabled": options.actor_locality_enabled,
        "verbose_progress": options.verbose_progress,
    }


def _amounts(resources: Any) -> dict[str, Any]:
    amounts = {
        "CPU": resources.cpu,
        "GPU": resources.gpu,
        "object_store_memory": resources.object_store_memory,
        "memory": resources.memory,
    }
    shown: dict[str, Any] = _shallow(amounts)
    return shown


def _shallow(value: Any, depth: int = _MAX_DEPTH) -> Any:
    """The value as JSON can have it: other objects by their text, dicts to some depth."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Mapping):
        if depth <= 0:
            return "..."
        return {_text(key): _shallow(inner, depth - 1) for key, inner in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_shallow(inner, depth) for inner in value]
    return _text(value)


def _text(value: Any) -> str:
    kind: Any = type(value)
    if kind.__str__ is object.__str__ and kind.__repr__ is object.__repr__:
        return str(kind.__name__)  # an address says nothing
    try:
        return str(value)
    except Exception:  # a user's class
        return str(kind.__name__)


def _ns(seconds: float | None) -> int | None:
    return None if seconds is None else int(seconds * 1e9)
