"""The resources of a trial, in bundles."""

from __future__ import annotations

from collections.abc import Mapping

from heliostat.train.config import ScalingConfig
from heliostat.train.config.bundles import PlacementGroupFactory

__all__ = [
    "PlacementGroupFactory",
    "as_resources",
    "is_function_of_config",
    "resource_dict_to_pg_factory",
]

# The forms that an error message lists.
FORMS = (
    "a dict such as {'cpu': 1}, a PlacementGroupFactory, a ScalingConfig, or a function of the config that "
    "returns one of them"
)


def as_resources(resources: object) -> PlacementGroupFactory:
    """Read the resources of a trial from any of the forms that programs write.

    Args:
        resources: A ``PlacementGroupFactory``; a dict such as ``{"cpu": 1, "gpu": 0.5}``, whose other
            names are resources of the cluster (or stand below ``"custom_resources"``); or a
            ``ScalingConfig``, whose workers get a bundle each.

    Raises:
        ValueError: It is something else, or there is no such strategy.
    """
    if isinstance(resources, PlacementGroupFactory):
        return resources.check()
    if isinstance(resources, ScalingConfig):
        workers = [dict(resources.worker_resources) for _ in range(resources.min_workers)]
        return PlacementGroupFactory([{}, *workers], resources.placement_strategy)
    if not isinstance(resources, Mapping):
        raise ValueError(f"resources={resources!r} must be {FORMS}.")
    own = dict(resources)
    usual = {name: own.pop(name.lower(), own.pop(name, 0)) for name in ("CPU", "GPU")}
    memory = own.pop("memory", 0)
    custom = dict(own.pop("custom_resources", {}) or own)
    return PlacementGroupFactory([{**custom, **usual, "memory": memory}])


def resource_dict_to_pg_factory(spec: Mapping[str, float] | None = None) -> PlacementGroupFactory:
    """Return what a dict such as ``{"cpu": 2}`` means for a trial; None or ``{}``: one CPU."""
    return as_resources(spec or {"cpu": 1})


def is_function_of_config(resources: object) -> bool:
    """Whether resources are computed for each trial. A ``PlacementGroupFactory`` is callable and is not."""
    return callable(resources) and not isinstance(
        resources, PlacementGroupFactory | ScalingConfig | Mapping
    )
