"""The placement groups of replicas: those of a gang have the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from heliostat.serve.controller.events import Start
from heliostat.serve.options import GangPlacementStrategy
from heliostat.util.placement_group import PlacementGroup, placement_group, remove_placement_group
from heliostat.util.scheduling_strategies import PlacementGroupSchedulingStrategy


class ReplicaGroups:
    """The groups of one controller; ``changed`` is called when there is another state to save."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        self._groups: dict[str, PlacementGroup] = {}  # by replica

    def options(self, action: Start) -> dict[str, Any]:
        """Return the options that put a replica into its group, where it has one; makes the group."""
        config, gang = action.spec.config, action.gang
        bundles, selectors = (
            config.placement_group_bundles,
            config.placement_group_bundle_label_selector,
        )
        if gang is None and bundles is None:
            return {}
        members = (action.replica,) if gang is None else gang.members
        # A replica that takes nothing has a bundle all the same.
        own = bundles or [config.resources() or {"CPU": 0.001}]
        if action.replica not in self._groups:
            strategy, gangs = config.placement_group_strategy, config.gang_scheduling_config
            group = placement_group(
                own * len(members),
                strategy if gangs is None else GangPlacementStrategy(gangs.gang_placement_strategy),
                name="" if gang is None else gang.group_of(action.deployment),
                lifetime="detached",
                bundle_label_selector=selectors and selectors * len(members),
            )
            self._groups |= dict.fromkeys(members, group)
            self._changed()
        index = members.index(action.replica) * len(own)
        chosen = PlacementGroupSchedulingStrategy(self._groups[action.replica], index, True)
        return {"scheduling_strategy": chosen}

    def give_back(self, replica: str) -> None:
        """Give back the group of a replica that has ended, once all of a gang have."""
        group = self._groups.pop(replica, None)
        if group is None:
            return
        if all(other.id != group.id for other in self._groups.values()):
            remove_placement_group(group)
        self._changed()

    def saved(self) -> dict[str, PlacementGroup]:
        """Return the state for a later controller."""
        return self._groups

    def restore(self, groups: dict[str, PlacementGroup]) -> None:
        """Take over the groups of an earlier controller."""
        self._groups = groups
