"""The resources of a trial, in bundles."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from heliostat.train.config import ScalingConfig

# What an error says can be written.
FORMS = (
    "a dict such as {'cpu': 1}, a PlacementGroupFactory, a ScalingConfig, or a function of the config that "
    "returns one of them"
)


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


def as_resources(resources: Any) -> PlacementGroupFactory:
    """One of the forms in which programs write what a trial takes.

    Args:
        resources: A ``PlacementGroupFactory``; a dict such as ``{"cpu": 1, "gpu": 0.5}``, whose other
            names are resources of the cluster (or stand below ``"custom_resources"``); or a
            ``ScalingConfig``, whose workers get a bundle each.

    Raises:
        ValueError: It is something else.
    """
    if isinstance(resources, PlacementGroupFactory):
        return resources
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
    """Return what a dict such as ``{"cpu": 2}`` means for a trial; None: one CPU."""
    return as_resources({"cpu": 1} if spec is None else spec)


def is_function_of_config(resources: Any) -> bool:
    """Whether resources are computed for each trial. A ``PlacementGroupFactory`` is callable and is not."""
    return callable(resources) and not isinstance(
        resources, PlacementGroupFactory | ScalingConfig | Mapping
    )
