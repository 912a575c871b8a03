"""Runs a Dask graph: Dask's own scheduler walks it in this process and submits instead of computing.

Each task of the graph is replaced by one that submits it and has the reference for its result. Whatever
depends on it gets the reference, which the cluster replaces by the value before that task begins. So Dask
keeps doing what it does, ordering, aliases and its callbacks, and no result passes through the driver.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Iterable, Mapping
from typing import Any

import dask
from dask._task_spec import Task, TaskRef, convert_legacy_graph

import heliostat
from heliostat import cloudpickle
from heliostat.util.dask.callbacks import (
    ProgressBarCallback,
    RayCallbacks,
    local_ray_callbacks,
    unpack_ray_callbacks,
)

__all__ = [
    "dataframe_optimize",
    "disable_dask_on_ray",
    "enable_dask_on_ray",
    "is_ours",
    "ray_dask_get",
    "ray_dask_get_sync",
]

_RESOURCES = (
    'resources={...} is not what Dask\'s tasks take here: give ray_remote_args={"resources": {...}}, '
    "which are options of heliostat.remote"
)


def enable_dask_on_ray(
    shuffle: str | None = "tasks", use_shuffle_optimization: bool | None = True
) -> Any:
    """Have Dask compute on the cluster: from now on, or within ``with enable_dask_on_ray():``.

    Args:
        shuffle: How frames are shuffled. ``"tasks"`` works where nodes share no folder, ``"disk"`` does
            not.
        use_shuffle_optimization: Optimize frames, with releases of Dask that do not do so by
            themselves. Default True.

    Returns:
        What ``dask.config.set`` returns.

    Examples:
        >>> import dask
        >>> from ray.util.dask import enable_dask_on_ray
        >>> with enable_dask_on_ray():
        ...     dask.delayed(sum)([1, 2, 3]).compute()
        6
    """
    return dask.config.set(
        {
            "scheduler": ray_dask_get,
            "dataframe.shuffle.method": shuffle,
            "dataframe_optimize": dataframe_optimize if use_shuffle_optimization else None,
        }
    )


def disable_dask_on_ray() -> Any:
    """Have Dask compute as it does by default.

    Examples:
        >>> from ray.util.dask import disable_dask_on_ray, enable_dask_on_ray
        >>> _ = enable_dask_on_ray()
        >>> _ = disable_dask_on_ray()
    """
    names = ("scheduler", "dataframe.shuffle.method", "dataframe_optimize")
    return dask.config.set(dict.fromkeys(names))


def is_ours(scheduler: Any, collections: Iterable[Any]) -> bool:
    """Whether one of the schedulers below computes these collections."""
    known = [item for item in collections if dask.is_dask_collection(item)]
    chosen = dask.base.get_scheduler(scheduler=scheduler, collections=known)
    return chosen in (ray_dask_get, ray_dask_get_sync)


def ray_dask_get(dsk: Any, keys: Any, **kwargs: Any) -> Any:
    """Compute keys of a Dask graph on the cluster: ``compute(scheduler=ray_dask_get)``.

    Args:
        dsk: The graph.
        keys: What is computed of it.
        **kwargs: ``ray_remote_args``: options of ``ray.remote`` for every task;
            ``dask.annotate(ray_remote_args=…)`` gives some tasks their own. ``ray_callbacks``:
            callbacks instead of the active ones. ``num_workers`` and ``pool`` have no effect.

    Returns:
        The values, nested as the keys are.

    Examples:
        >>> import dask
        >>> from ray.util.dask import ray_dask_get
        >>> dask.delayed(sum)([1, 2, 3]).compute(scheduler=ray_dask_get)
        6
    """
    return _get(dsk, keys, kwargs)


def ray_dask_get_sync(dsk: Any, keys: Any, **kwargs: Any) -> Any:
    """As :func:`ray_dask_get`, which submits from one thread, too.

    Args:
        dsk: The graph.
        keys: What is computed of it.
        **kwargs: As of :func:`ray_dask_get`.

    Returns:
        The values, nested as the keys are.

    Examples:
        >>> import dask
        >>> from ray.util.dask import ray_dask_get_sync
        >>> dask.delayed(sum)([1, 2, 3]).compute(scheduler=ray_dask_get_sync)
        6
    """
    return _get(dsk, keys, kwargs)


def dataframe_optimize(dsk: Any, keys: Any, **kwargs: Any) -> Any:
    """The optimization of frames that Dask itself does.

    Args:
        dsk: The graph.
        keys: What is computed of it.
        **kwargs: As Dask passes them.

    Returns:
        The graph, optimized.

    Examples:
        >>> import dask
        >>> from ray.util.dask import dataframe_optimize, ray_dask_get
        >>> with dask.config.set(scheduler=ray_dask_get, dataframe_optimize=dataframe_optimize):
        ...     dask.delayed(sum)([1, 2, 3]).compute()
        6
    """
    try:
        from dask.dataframe.optimize import optimize
    except ImportError:
        return dsk  # Dask optimizes expressions, before there is a graph
    return optimize(dsk, keys, **kwargs)


# ---- the driver's side ----


def _get(dsk: Any, keys: Any, kwargs: dict[str, Any]) -> Any:
    for name in ("num_workers", "pool"):
        kwargs.pop(name, None)
    if "resources" in kwargs:
        raise ValueError(_RESOURCES)
    persist = kwargs.pop("ray_persist", False)
    callbacks = kwargs.pop("ray_callbacks", None)
    with_bar = kwargs.pop("_ray_enable_progress_bar", False)
    options = _Options(dsk, kwargs.pop("ray_remote_args", None) or {})
    graph = convert_legacy_graph(dsk if isinstance(dsk, Mapping) else dsk.__dask_graph__())
    with local_ray_callbacks(callbacks) as active:
        hooks = unpack_ray_callbacks([*active, *([ProgressBarCallback()] if with_bar else [])])
        submitting = {
            key: _submitting(node, options.of(key), hooks) if isinstance(node, Task) else node
            for key, node in graph.items()
        }
        refs = dask.local.get_sync(submitting, keys, **kwargs)
        for hook in hooks.ray_postsubmit_all_cbs or ():
            hook(refs, dsk)
        result = refs if persist else _fetched(keys, refs)
        for hook in hooks.ray_finish_cbs or ():
            hook(result)
    return result


class _Options:
    """Options of each task: those of the call, then those around the call, then those of its layer."""

    def __init__(self, dsk: Any, given: Mapping[str, Any]) -> None:
        around = dask.get_annotations()
        layers = _annotations(dsk)
        if "resources" in around or "resources" in layers:
            raise ValueError(_RESOURCES)
        self._common = {**given, **around.get("ray_remote_args", {})}
        self._own = layers.get("ray_remote_args", {})

    def of(self, key: Any) -> dict[str, Any]:
        return {**self._common, **self._own.get(key, {})}


def _annotations(dsk: Any) -> dict[str, dict[Any, Any]]:
    """By name and by key of the graph."""
    if hasattr(dsk, "__dask_annotations__"):
        found: dict[str, dict[Any, Any]] = dsk.__dask_annotations__()
        return found
    found = {}
    for layer in getattr(dsk, "layers", {}).values():
        for name, value in (layer.annotations or {}).items():
            of = found.setdefault(name, {})
            of.update({key: value(key) if callable(value) else value for key in layer})
    return found


def _submitting(task: Task, options: dict[str, Any], hooks: RayCallbacks) -> Task:
    needs = list(task.dependencies)
    return Task(task.key, _Submit(task, needs, options, hooks), *(TaskRef(key) for key in needs))


class _Submit:
    """Called with what a task needs, references mostly: submits the task, returns its reference."""

    def __init__(
        self, task: Task, needs: list[Any], options: dict[str, Any], hooks: RayCallbacks
    ) -> None:
        self._task, self._needs, self._options, self._hooks = task, needs, options, hooks

    def __call__(self, *values: Any) -> Any:
        task, hooks = self._task, self._hooks
        deps = dict(zip(self._needs, values, strict=True))
        for hook in hooks.ray_presubmit_cbs or ():
            instead = hook(task, task.key, deps)
            if instead is not None:
                return instead
        pickled, refs = _pickled(task)
        remote = _run.options(**{"name": f"dask:{task.key!s}", **self._options})
        around = (hooks.ray_pretask_cbs, hooks.ray_posttask_cbs)
        ref = remote.remote(pickled, self._needs, *around, *values, *refs)
        for hook in hooks.ray_postsubmit_cbs or ():
            hook(task, task.key, deps, ref)
        return ref


class _Pickler(cloudpickle.CloudPickler):
    """Leaves out references, which become arguments, so that the task waits for their values."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, protocol=pickle.HIGHEST_PROTOCOL)
        self.refs: list[heliostat.ObjectRef] = []

    def persistent_id(self, value: Any) -> int | None:
        if not isinstance(value, heliostat.ObjectRef):
            return None
        self.refs.append(value)
        return len(self.refs) - 1


def _pickled(task: Task) -> tuple[bytes, list[heliostat.ObjectRef]]:
    file = io.BytesIO()
    pickler = _Pickler(file)
    pickler.dump(task)
    return file.getvalue(), pickler.refs


def _fetched(keys: Any, refs: Any) -> Any:
    """The values of the references, in lists as the keys are."""
    found: list[heliostat.ObjectRef] = []
    _collect(keys, refs, found)
    values = dict(zip(found, heliostat.get(found), strict=True)) if found else {}
    return _replaced(keys, refs, values)


def _collect(keys: Any, refs: Any, found: list[heliostat.ObjectRef]) -> None:
    if isinstance(keys, list):
        for key, ref in zip(keys, refs, strict=True):
            _collect(key, ref, found)
    elif isinstance(refs, heliostat.ObjectRef):
        found.append(refs)


def _replaced(keys: Any, refs: Any, values: dict[heliostat.ObjectRef, Any]) -> Any:
    if isinstance(keys, list):
        return tuple(_replaced(key, ref, values) for key, ref in zip(keys, refs, strict=True))
    return values[refs] if isinstance(refs, heliostat.ObjectRef) else refs


# ---- the worker's side ----


class _Unpickler(pickle.Unpickler):
    def __init__(self, pickled: bytes, values: list[Any]) -> None:
        super().__init__(io.BytesIO(pickled))
        self._values = values

    def persistent_load(self, index: int) -> Any:
        return self._values[index]


@heliostat.remote
def _run(
    pickled: bytes,
    needs: list[Any],
    before: list[Any] | None,
    after: list[Any] | None,
    *values: Any,
) -> Any:
    """A task of the graph. ``values``: of what it needs, then of the references within it."""
    task: Any = _Unpickler(pickled, list(values[len(needs) :])).load()
    states = [hook and hook(task.key, list(values)) for hook in before or ()]
    result = task(dict(zip(needs, values[: len(needs)], strict=True)))
    for index, hook in enumerate(after or ()):
        if hook is not None:
            hook(task.key, result, states[index] if states else None)
    return result
