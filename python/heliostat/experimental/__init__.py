"""The names that Ray keeps under ``experimental``."""

from __future__ import annotations

from typing import Any, NoReturn

from heliostat.experimental.locations import get_local_object_locations, get_object_locations

__all__ = ["get_local_object_locations", "get_object_locations", "set_resource"]

_MODULES = ("internal_kv", "tqdm_ray")


def __getattr__(name: str) -> Any:
    import importlib

    if name in _MODULES:
        return importlib.import_module(f"heliostat.experimental.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def set_resource(resource_name: str, capacity: float, node_id: str | None = None) -> NoReturn:
    """Refused, as on Ray: use a placement group, or ``resources`` where the node starts.

    Args:
        resource_name: Has no effect.
        capacity: Has no effect.
        node_id: Has no effect.

    Raises:
        DeprecationWarning: Always.

    Examples:
        >>> import ray
        >>> try:
        ...     ray.experimental.set_resource("license", 2)
        ... except DeprecationWarning:
        ...     print("give the node its resources when it starts: ray start --resources")
        give the node its resources when it starts: ray start --resources
    """
    raise DeprecationWarning(
        "A node's resources cannot be changed while it runs. Reserve what you need with a placement "
        "group (heliostat.util.placement_group), or name it when the node starts: "
        "`init(resources={...})`, `start --resources '{...}'`."
    )
