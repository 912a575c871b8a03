"""Placement groups: resources reserved together, before what uses them exists.

The control service of this release has none yet. What is here is the API in full, with its argument
checks; what would have to reserve says which part is missing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from heliostat._heliostat import ObjectRef, PlacementGroupID

STRATEGIES = ("PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD")


def _missing(what: str) -> NoReturn:
    raise NotImplementedError(
        f"{what}: placement groups are not in this release of Heliostat "
        "(the control service cannot reserve bundles yet)"
    )


class PlacementGroup:
    """A handle to reserved bundles of resources."""

    def __init__(
        self, id: PlacementGroupID, bundle_cache: Sequence[Mapping[str, float]] = ()
    ) -> None:
        self.id = id
        self.bundle_cache = [dict(bundle) for bundle in bundle_cache]

    @property
    def bundle_specs(self) -> list[dict[str, float]]:
        """What each bundle reserves."""
        return [dict(bundle) for bundle in self.bundle_cache]

    @property
    def bundle_count(self) -> int:
        """How many bundles there are."""
        return len(self.bundle_cache)

    def ready(self) -> ObjectRef:
        """A reference that is ready when every bundle is reserved."""
        _missing("PlacementGroup.ready()")

    def wait(self, timeout_seconds: float = 30) -> bool:
        """Whether every bundle is reserved within the time."""
        _missing("PlacementGroup.wait()")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PlacementGroup) and bool(self.id == other.id)

    def __hash__(self) -> int:
        return hash(self.id)


def placement_group(
    bundles: list[dict[str, float]],
    strategy: str | None = None,
    name: str = "",
    lifetime: str | None = None,
    _soft_target_node_id: str | None = None,
    bundle_label_selector: list[dict[str, str]] | None = None,
    topology_strategy: dict[str, str] | None = None,
) -> PlacementGroup:
    """Reserve bundles together; returns at once."""
    check_bundles(bundles)
    if strategy is not None and strategy not in STRATEGIES:
        raise ValueError(
            f"Invalid placement group strategy {strategy!r}. One of {list(STRATEGIES)}."
        )
    if lifetime not in (None, "detached"):
        raise ValueError("placement group `lifetime` argument must be either `None` or 'detached'")
    _missing("placement_group()")


def check_bundles(bundles: Any) -> None:
    """Refuse what is no non-empty list of non-empty bundles."""
    if not isinstance(bundles, list):
        raise ValueError(f"Placement group bundles must be a list, got {type(bundles)}.")
    if not bundles:
        raise ValueError("Bundles must be a non-empty list of resource dictionaries.")
    for bundle in bundles:
        if not isinstance(bundle, dict) or not bundle:
            raise ValueError(f"A bundle must be a non-empty resource dictionary, got {bundle!r}.")
        if all(quantity == 0 for quantity in bundle.values()):
            raise ValueError(f"Bundles with only 0 resources are invalid: {bundle!r}")
        if any(quantity < 0 for quantity in bundle.values()):
            raise ValueError(f"The quantities of a bundle cannot be negative: {bundle!r}")


def remove_placement_group(placement_group: PlacementGroup) -> None:
    """Give the bundles back; what runs in them ends."""
    _missing("remove_placement_group()")


def get_placement_group(placement_group_name: str) -> PlacementGroup:
    """The group of that name; ``ValueError`` where there is none."""
    if not placement_group_name:
        raise ValueError("Please supply a non-empty value to get_placement_group")
    raise ValueError(f"Failed to look up placement group with name: {placement_group_name}")


def placement_group_table(placement_group: PlacementGroup | None = None) -> dict[str, Any]:
    """What is known of the group, or of every group by its id."""
    if placement_group is None:
        return {}
    _missing("placement_group_table()")


def get_current_placement_group() -> PlacementGroup | None:
    """The group that the caller runs in; ``None`` on a driver."""
    from heliostat import _heliostat

    if not _heliostat.is_connected() or _heliostat.current()["placement_group_id"] is None:
        return None
    _missing("get_current_placement_group()")
