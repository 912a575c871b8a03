"""Reserving room for a whole group at once, where the core can: placement groups."""

from __future__ import annotations

from typing import Any

_NAMED = {"CPU": "num_cpus", "GPU": "num_gpus", "memory": "memory"}


def actor_options(wanted: dict[str, float]) -> dict[str, Any]:
    """The options of an actor that gets ``wanted``."""
    options: dict[str, Any] = {"num_cpus": 0}
    custom = {k: v for k, v in wanted.items() if k not in _NAMED}
    for name, option in _NAMED.items():
        if name in wanted:
            options[option] = wanted[name]
    if custom:
        options["resources"] = custom
    return options


class Reservation:
    """Room for a group of a fixed size; does nothing where there are no placement groups."""

    def __init__(self) -> None:
        self._group: Any = None

    def reserve(self, wanted: dict[str, float], workers: int, strategy: str) -> Any:
        """Ask for the room; returns a ref that is ready when it is there, or None."""
        try:
            from heliostat.util.placement_group import placement_group

            self._group = placement_group([dict(wanted) for _ in range(workers)], strategy=strategy)
        except (ImportError, NotImplementedError):
            return None
        return self._group.ready()

    def options(self, index: int) -> dict[str, Any]:
        """Options of the actor that gets the ``index``-th part of the room."""
        if self._group is None:
            return {}
        from heliostat.util.scheduling_strategies import PlacementGroupSchedulingStrategy

        return {
            "scheduling_strategy": PlacementGroupSchedulingStrategy(
                self._group, placement_group_bundle_index=index
            )
        }

    def release(self) -> None:
        """Give the room back."""
        if self._group is not None:
            from heliostat.util.placement_group import remove_placement_group

            group, self._group = self._group, None
            remove_placement_group(group)
