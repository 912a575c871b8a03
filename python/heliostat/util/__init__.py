"""Helpers on top of the core API.

No ``from __future__ import annotations`` here: its name would hide the module of that name.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from heliostat.core.calls.placement import (
        get_current_placement_group,
        get_placement_group,
        placement_group,
        placement_group_table,
        remove_placement_group,
    )
    from heliostat.core.driver.remote import connect, disconnect
    from heliostat.core.serialize import deregister_serializer, register_serializer
    from heliostat.core.state import named_actors as list_named_actors
    from heliostat.core.state import node_ip_address as get_node_ip_address
    from heliostat.util import accelerators
    from heliostat.util.actor_pool import ActorPool
    from heliostat.util.check_serialize import inspect_serializability
    from heliostat.util.debug import (
        disable_log_once_globally,
        enable_periodic_logging,
        log_once,
    )
    from heliostat.util.explanation import why
    from heliostat.util.helpers import as_completed, map_unordered
    from heliostat.util.misc import get_node_instance_id

# name: (module, name there)
_EXPORTS = {
    "ActorPool": ("heliostat.util.actor_pool", "ActorPool"),
    "as_completed": ("heliostat.util.helpers", "as_completed"),
    "connect": ("heliostat.core.driver.remote", "connect"),
    "deregister_serializer": ("heliostat.core.serialize", "deregister_serializer"),
    "disable_log_once_globally": ("heliostat.util.debug", "disable_log_once_globally"),
    "disconnect": ("heliostat.core.driver.remote", "disconnect"),
    "enable_periodic_logging": ("heliostat.util.debug", "enable_periodic_logging"),
    "get_current_placement_group": (
        "heliostat.core.calls.placement",
        "get_current_placement_group",
    ),
    "get_node_instance_id": ("heliostat.util.misc", "get_node_instance_id"),
    "get_node_ip_address": ("heliostat.core.state", "node_ip_address"),
    "get_placement_group": ("heliostat.core.calls.placement", "get_placement_group"),
    "inspect_serializability": ("heliostat.util.check_serialize", "inspect_serializability"),
    "list_named_actors": ("heliostat.core.state", "named_actors"),
    "log_once": ("heliostat.util.debug", "log_once"),
    "map_unordered": ("heliostat.util.helpers", "map_unordered"),
    "placement_group_table": ("heliostat.core.calls.placement", "placement_group_table"),
    "register_serializer": ("heliostat.core.serialize", "register_serializer"),
    "remove_placement_group": ("heliostat.core.calls.placement", "remove_placement_group"),
    "why": ("heliostat.util.explanation", "why"),
}

_MODULES = (
    "accelerators",
    "actor_group",
    "annotations",
    "client",
    "dask",
    "iter",
    "joblib",
    "metrics",
    "multiprocessing",
    "placement_group",  # a module that can be called
    "queue",
    "scheduling_strategies",
    "state",
)

__all__ = [
    "ActorPool",
    "accelerators",
    "as_completed",
    "connect",
    "deregister_serializer",
    "disable_log_once_globally",
    "disconnect",
    "enable_periodic_logging",
    "get_current_placement_group",
    "get_node_instance_id",
    "get_node_ip_address",
    "get_placement_group",
    "inspect_serializability",
    "list_named_actors",
    "log_once",
    "map_unordered",
    "placement_group",
    "placement_group_table",
    "register_serializer",
    "remove_placement_group",
    "why",
]


def __getattr__(name: str) -> Any:
    import importlib

    if name in _EXPORTS:
        module, attribute = _EXPORTS[name]
        value = getattr(importlib.import_module(module), attribute)
        globals()[name] = value
        return value
    if name in _MODULES:
        return importlib.import_module(f"heliostat.util.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_EXPORTS, *_MODULES})
