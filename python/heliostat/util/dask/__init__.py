"""Dask's collections on the cluster: a scheduler that runs each task of a Dask graph as a task here.

    from heliostat.util.dask import enable_dask_on_ray

    enable_dask_on_ray()
    frame.groupby("a").sum().compute()

Intermediate results stay in the object store, and go from node to node there. Importing this module
makes ``persist`` leave its results in the object store as well, where these schedulers run it.
"""

from __future__ import annotations

from typing import Any

from heliostat.util.dask.callbacks import (
    ProgressBarCallback,
    RayDaskCallback,
    dask,
    local_ray_callbacks,
    unpack_ray_callbacks,
)
from heliostat.util.dask.scheduler import (
    dataframe_optimize,
    disable_dask_on_ray,
    enable_dask_on_ray,
    is_ours,
    ray_dask_get,
    ray_dask_get_sync,
)

__all__ = [
    "ProgressBarCallback",
    "RayDaskCallback",
    "dataframe_optimize",
    "disable_dask_on_ray",
    "enable_dask_on_ray",
    "local_ray_callbacks",
    "ray_dask_get",
    "ray_dask_get_sync",
    "ray_dask_persist",
    "unpack_ray_callbacks",
]

_OLDEST = (2024, 11)


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".")[:2] if part.isdecimal())


if _version(dask.__version__) < _OLDEST:
    raise ImportError(
        f"heliostat.util.dask needs Dask 2024.11.0 or newer, found {dask.__version__}: "
        "run `pip install -U dask`"
    )

_persist = dask.base.persist


def ray_dask_persist(*args: Any, **kwargs: Any) -> Any:
    """``dask.persist``; where one of these schedulers runs it, the results are references.

    Args:
        *args: Collections.
        **kwargs: As of ``dask.persist``.

    Returns:
        The collections, with references in them where one of these schedulers runs it.

    Examples:
        >>> import dask
        >>> from ray.util.dask import ray_dask_get, ray_dask_persist
        >>> [total] = ray_dask_persist(dask.delayed(sum)([1, 2, 3]), scheduler=ray_dask_get)
        >>> total.compute(scheduler=ray_dask_get)  # its result is in the object store already
        6
    """
    if is_ours(kwargs.get("scheduler"), args):
        kwargs["ray_persist"] = True
    return _persist(*args, **kwargs)


# `collection.persist()` calls the one in `dask.base`.
dask.persist = dask.base.persist = ray_dask_persist
