"""The bundles that a trial of ``heliostat.tune`` takes; a ``ScalingConfig`` makes them of its workers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class PlacementGroupFactory:
    """What each trial takes: the first bundle for itself, further ones for what it starts.

    Args:
        bundles: Resources such as ``[{"CPU": 1}, {"GPU": 1}]``.
        strategy: As of a placement group.
    """

    def __init__(
        self, bundles: list[dict[str, float]], strategy: str = "PACK", *args: Any, **kwargs: Any
    ) -> None:
        if not bundles:
            raise ValueError("Cannot initialize a PlacementGroupFactory with zero bundles.")
        if any(not isinstance(bundle, Mapping) for bundle in bundles):
            raise ValueError(f"bundles={bundles!r} must be a list of dicts.")
        kept = [{k: float(v) for k, v in bundle.items() if v != 0} for bundle in bundles]
        if not any(kept):
            raise ValueError(
                "Cannot initialize a PlacementGroupFactory with an empty head and zero worker bundles."
            )
        self.head_bundle_is_empty = not kept[0]
        self._bundles = kept[1:] if self.head_bundle_is_empty and len(kept) > 1 else kept
        self.strategy = strategy
        self._args, self._kwargs = args, kwargs

    @property
    def bundles(self) -> list[dict[str, float]]:
        """The bundles, without an empty first one."""
        return [dict(bundle) for bundle in self._bundles]

    @property
    def head_cpus(self) -> float:
        """The CPUs of the trial itself."""
        return 0.0 if self.head_bundle_is_empty else self._bundles[0].get("CPU", 0.0)

    @property
    def required_resources(self) -> dict[str, float]:
        """The sum of all bundles."""
        total: dict[str, float] = {}
        for bundle in self._bundles:
            for name, amount in bundle.items():
                total[name] = total.get(name, 0.0) + amount
        return total

    def to_placement_group(self) -> Any:
        """Make a placement group."""
        from heliostat.util.placement_group import placement_group

        return placement_group(self._bundles, self.strategy, *self._args, **self._kwargs)

    def __call__(self) -> Any:
        return self.to_placement_group()

    def _key(self) -> tuple[Any, ...]:
        bundles = tuple(tuple(sorted(bundle.items())) for bundle in self._bundles)
        return self.head_bundle_is_empty, bundles, self.strategy

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PlacementGroupFactory) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return f"PlacementGroupFactory(bundles={self.bundles}, strategy={self.strategy!r})"
