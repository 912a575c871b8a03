"""Placement groups: resources reserved together.

``heliostat.util.placement_group`` is this module and the function at once: it can be called.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any

from heliostat.core.calls.placement import (
    PlacementGroup,
    check_placement_group_index,
    get_current_placement_group,
    get_placement_group,
    placement_group,
    placement_group_table,
    remove_placement_group,
)

__all__ = [
    "PlacementGroup",
    "check_placement_group_index",
    "get_current_placement_group",
    "get_placement_group",
    "placement_group",
    "placement_group_table",
    "remove_placement_group",
]


class _Callable(ModuleType):
    def __call__(self, *args: Any, **kwargs: Any) -> PlacementGroup:
        return placement_group(*args, **kwargs)

    def __reduce__(self) -> tuple[Any, ...]:
        # A module that imports the function is pickled with a reference to this module.
        return (import_module, (__name__,))


sys.modules[__name__].__class__ = _Callable
