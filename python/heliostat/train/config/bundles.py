"""The bundles that a trial of ``heliostat.tune`` takes; a ``ScalingConfig`` makes them of its workers."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from heliostat.util.placement_group import placement_group

STRATEGIES = ("PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD")


class PlacementGroupFactory:
    """The resources of each trial: the first bundle for itself, further ones for what it starts.

    Args:
        bundles: Resources such as ``[{"CPU": 1}, {"GPU": 1}]``.
        strategy: As of a placement group: "PACK", "SPREAD", "STRICT_PACK" or "STRICT_SPREAD". Another one is
            a ``ValueError`` where the bundles are taken: by ``fit()``, or when the factory is called.
        args, kwargs: Further options of ``ray.util.placement_group``.

    Raises:
        ValueError: There are no bundles, or one is not a dict.
        RuntimeError: A placement group has no such option.

    Examples:
        >>> import ray
        >>> from ray import tune
        >>> @ray.remote(num_cpus=1)
        ... def part(x):
        ...     return 2 * x
        >>> def objective(config):
        ...     tune.report({"sum": sum(ray.get([part.remote(x) for x in range(3)]))})
        >>> needs = tune.PlacementGroupFactory([{"CPU": 1}, {"CPU": 1}])  # one for the trial, one for parts
        >>> tuner = tune.Tuner(
        ...     tune.with_resources(objective, needs), run_config=tune.RunConfig(verbose=0)
        ... )
        >>> tuner.fit()[0].metrics["sum"]
        6
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
        if args or kwargs:
            try:
                inspect.signature(placement_group).bind(kept, strategy, *args, **kwargs)
            except TypeError as error:
                raise RuntimeError(
                    f"PlacementGroupFactory takes the options of ray.util.placement_group: {error}."
                ) from error
        self._args, self._kwargs = args, kwargs
        known = tuple(tuple(sorted(bundle.items())) for bundle in self._bundles)
        self._key = self.head_bundle_is_empty, known, strategy  # searches count by it

    def check(self) -> PlacementGroupFactory:
        """Return this.

        Raises:
            ValueError: There is no such strategy.
        """
        if self.strategy not in STRATEGIES:
            raise ValueError(
                f"Invalid placement group strategy {self.strategy}. It is one of {', '.join(STRATEGIES)}."
            )
        return self

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
        return placement_group(self._bundles, self.strategy, *self._args, **self._kwargs)

    def __call__(self) -> Any:
        return self.to_placement_group()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PlacementGroupFactory) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        return f"PlacementGroupFactory(bundles={self.bundles}, strategy={self.strategy!r})"
