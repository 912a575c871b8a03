"""Reserving room for workers before they are made: placement groups."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

from heliostat.core.platform.labels import NODE_ID
from heliostat.train.config import ScalingConfig
from heliostat.util.placement_group import (
    PlacementGroup,
    placement_group,
    remove_placement_group,
)
from heliostat.util.scheduling_strategies import PlacementGroupSchedulingStrategy

_NAMED = {"CPU": "num_cpus", "GPU": "num_gpus", "memory": "memory"}


def placed_resources(scaling: ScalingConfig) -> dict[str, float]:
    """Return the resources that the place of one worker must have, by name, the accelerator type
    among them.
    """
    wanted = dict(scaling.worker_resources)
    if scaling.accelerator_type:
        # As much as an actor with an accelerator type takes of it.
        wanted[f"accelerator_type:{scaling.accelerator_type}"] = 0.001
    return wanted


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


def labels_of(scaling: ScalingConfig, index: int) -> dict[str, str]:
    """Return the labels that the node of a worker must have."""
    selector = scaling.label_selector
    if isinstance(selector, list):
        return selector[index % len(selector)]
    return selector or {}


class Reservation:
    """Room for workers, given together."""

    def __init__(self) -> None:
        self._group: PlacementGroup | None = None

    def reserve(self, scaling: ScalingConfig, workers: Sequence[int], without: str = "") -> Any:
        """Ask for the room of these workers; returns a ref that is ready when it is there.

        ``without`` is the id of a node that is not to be taken.
        """
        bundle = placed_resources(scaling)
        elsewhere = {NODE_ID: f"!{without}"} if without else {}
        self._group = placement_group(
            [dict(bundle) for _ in workers],
            strategy=scaling.placement_strategy,
            bundle_label_selector=[{**elsewhere, **labels_of(scaling, i)} for i in workers],
        )
        return self._group.ready()

    def options(self, index: int) -> dict[str, Any]:
        """Options of the actor that gets the ``index``-th part of the room, -1: any of it."""
        if self._group is None:
            return {}
        return {
            "scheduling_strategy": PlacementGroupSchedulingStrategy(
                self._group, placement_group_bundle_index=index
            )
        }

    def release(self) -> None:
        """Give the room back; ends who is in it."""
        group, self._group = self._group, None
        if group is not None:
            with contextlib.suppress(Exception):
                remove_placement_group(group)
