"""Hooks around the tasks of a Dask graph, in the driver and in the workers."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import heliostat
from heliostat.core.platform.extras import required

dask: Any = required("dask", "Dask on the cluster")
Callback: Any = required("dask.callbacks", "Dask on the cluster").Callback

__all__ = [
    "ProgressBarCallback",
    "RayCallback",
    "RayCallbacks",
    "RayDaskCallback",
    "local_ray_callbacks",
    "unpack_ray_callbacks",
]


class RayCallback(NamedTuple):
    """The hooks of one :class:`RayDaskCallback`; ``None`` where it has none."""

    ray_presubmit: Any = None
    ray_postsubmit: Any = None
    ray_pretask: Any = None
    ray_posttask: Any = None
    ray_postsubmit_all: Any = None
    ray_finish: Any = None


class RayCallbacks(NamedTuple):
    """The hooks of several: a list of each kind, ``None`` for an empty one.

    The lists of ``ray_pretask`` and ``ray_posttask`` run in parallel, with ``None`` in the gaps.
    """

    ray_presubmit_cbs: list[Any] | None = None
    ray_postsubmit_cbs: list[Any] | None = None
    ray_pretask_cbs: list[Any] | None = None
    ray_posttask_cbs: list[Any] | None = None
    ray_postsubmit_all_cbs: list[Any] | None = None
    ray_finish_cbs: list[Any] | None = None


class RayDaskCallback(Callback):  # type: ignore[misc] # Dask has no types
    """Dask's ``Callback`` with hooks of the cluster, as methods of a subclass or as arguments.

    ``RayDaskCallback(ray_pretask=f, …)`` is the same as a subclass with a method ``_ray_pretask``. It is
    used as a context manager, or with :meth:`register`. Hooks that run in workers are pickled.

    Args:
        **kwargs: Hooks by name, such as ``ray_pretask``, and those of Dask's ``Callback``.

    Examples:
        >>> import dask
        >>> from ray.util.dask import RayDaskCallback, ray_dask_get
        >>> class Telling(RayDaskCallback):
        ...     def _ray_postsubmit(self, task, key, deps, object_ref):
        ...         print("sent")
        >>> with Telling():
        ...     dask.delayed(sum)([1, 2, 3]).compute(scheduler=ray_dask_get)
        sent
        6
    """

    # The callbacks that are entered or registered.
    ray_active: set[RayCallback] = set()  # noqa: RUF012 - the class's name for it is Ray's

    def __init__(self, **kwargs: Any) -> None:
        for name in RayCallback._fields:
            if (hook := kwargs.pop(name, None)) is not None:
                setattr(self, f"_{name}", hook)
        super().__init__(**kwargs)

    def _ray_presubmit(self, task: Any, key: Any, deps: dict[Any, Any]) -> Any:
        """Before a task is submitted. What is returned, unless ``None``, is taken for its result."""

    def _ray_postsubmit(
        self, task: Any, key: Any, deps: dict[Any, Any], object_ref: heliostat.ObjectRef
    ) -> None:
        """After a task was submitted."""

    def _ray_pretask(self, key: Any, object_refs: list[Any]) -> Any:
        """In the worker, before a task runs on these inputs; what is returned goes to the next one."""

    def _ray_posttask(self, key: Any, result: Any, pre_state: Any) -> None:
        """In the worker, after a task ran; ``pre_state`` is what ``_ray_pretask`` returned."""

    def _ray_postsubmit_all(self, object_refs: list[Any], dsk: Any) -> None:
        """After all tasks were submitted; ``object_refs`` are those of the results."""

    def _ray_finish(self, result: Any) -> None:
        """Called when the results are there."""

    @property
    def _ray_callback(self) -> RayCallback:
        return RayCallback(*(self._hook(name) for name in RayCallback._fields))

    def _hook(self, name: str) -> Any:
        method = f"_{name}"
        own = method in vars(self) or getattr(type(self), method) is not getattr(
            RayDaskCallback, method
        )
        return getattr(self, method) if own else None

    def __enter__(self) -> RayDaskCallback:
        RayDaskCallback.ray_active.add(self._ray_callback)
        super().__enter__()
        return self

    def __exit__(self, *args: object) -> None:
        super().__exit__(*args)
        RayDaskCallback.ray_active.discard(self._ray_callback)

    def register(self) -> None:
        """Use it from now on."""
        RayDaskCallback.ray_active.add(self._ray_callback)
        super().register()

    def unregister(self) -> None:
        """Use it no more; ``KeyError`` if it was not registered."""
        RayDaskCallback.ray_active.remove(self._ray_callback)
        super().unregister()


def unpack_ray_callbacks(cbs: Iterable[RayCallback | RayDaskCallback] | None) -> RayCallbacks:
    """Sort the hooks of callbacks by kind.

    Args:
        cbs: The callbacks.

    Returns:
        A list of each kind of hook; ``None`` for a kind that none has.

    Examples:
        >>> from ray.util.dask import RayDaskCallback, unpack_ray_callbacks
        >>> hooks = unpack_ray_callbacks([RayDaskCallback(ray_finish=print), RayDaskCallback()])
        >>> hooks.ray_finish_cbs, hooks.ray_presubmit_cbs
        ([<built-in function print>], None)
    """
    found = [cb._ray_callback if isinstance(cb, RayDaskCallback) else cb for cb in cbs or ()]
    lists: dict[str, list[Any] | None] = {}
    for name in RayCallback._fields:
        hooks = [getattr(cb, name) for cb in found]
        paired = name in ("ray_pretask", "ray_posttask")
        kept = hooks if paired else [hook for hook in hooks if hook is not None]
        lists[f"{name}_cbs"] = kept if any(hook is not None for hook in hooks) else None
    return RayCallbacks(**lists)


@contextlib.contextmanager
def local_ray_callbacks(
    callbacks: Iterable[RayCallback | RayDaskCallback] | None = None,
) -> Iterator[Iterable[RayCallback | RayDaskCallback]]:
    """The callbacks of one computation: these, else the active ones.

    While it lasts no others are active, so that a computation within a computation has none.

    Args:
        callbacks: The callbacks. Default: the active ones.

    Yields:
        The callbacks.

    Examples:
        >>> from ray.util.dask import RayDaskCallback, local_ray_callbacks
        >>> with RayDaskCallback(ray_finish=print):
        ...     with local_ray_callbacks() as active:
        ...         print(len(active), len(RayDaskCallback.ray_active))
        1 0
    """
    if callbacks is not None:
        yield callbacks
        return
    active, RayDaskCallback.ray_active = RayDaskCallback.ray_active, set()
    try:
        yield active
    finally:
        RayDaskCallback.ray_active = active


class ProgressBarCallback(RayDaskCallback):
    """Shows on the driver's terminal how many tasks of the computation have ended. Needs ``tqdm``.

    Examples:
        >>> import dask
        >>> from ray.util.dask import ProgressBarCallback, ray_dask_get
        >>> with ProgressBarCallback():  # the bar goes to stderr
        ...     dask.delayed(sum)([1, 2, 3]).compute(scheduler=ray_dask_get)
        6
    """

    def __init__(self) -> None:
        super().__init__()
        self._refs: list[Any] = []

    def _ray_postsubmit(self, task: Any, key: Any, deps: Any, object_ref: Any) -> None:
        self._refs.append(object_ref)

    def _ray_postsubmit_all(self, object_refs: Any, dsk: Any) -> None:
        from tqdm import tqdm

        left, self._refs = self._refs, []
        with tqdm(total=len(left)) as bar:
            while left:
                ended, left = heliostat.wait(left, num_returns=1, fetch_local=False)
                bar.update(len(ended))
