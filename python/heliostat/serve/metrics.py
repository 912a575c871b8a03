"""Metrics of deployments: as ``ray.util.metrics``, tagged with deployment, replica and application.

A metric that has the tag key ``route`` is tagged with the request's route unless the call names one.
Outside of replicas these are the plain metrics.
"""

from __future__ import annotations

from collections.abc import Mapping

from heliostat.serve import context
from heliostat.util import metrics

__all__ = ["Counter", "Gauge", "Histogram"]

_ROUTE = "route"


def _own() -> dict[str, str]:
    """The tags of this replica."""
    if not context.in_replica():
        return {}
    here = context.get_replica_context()
    return {
        "deployment": here.deployment,
        "replica": here.replica_tag,
        "application": here.app_name,
    }


def _check(names: object) -> None:
    for name in _own():
        if name in names:  # type: ignore[operator] # a tuple or a mapping
            raise ValueError(f"'{name}' tag is reserved for Ray Serve metrics")


def _keys(given: tuple[str, ...] | None) -> tuple[str, ...]:
    if given and not isinstance(given, tuple):
        raise TypeError(f"tag_keys should be a tuple type, got: {type(given)}")
    _check(given or ())
    return (*_own(), *(given or ()))


class _OfReplica(metrics.Metric):
    """Tags of the replica. Named after the plain metric, so that it stands between that and ``Metric``."""

    def __init__(
        self, name: str, description: str = "", tag_keys: tuple[str, ...] | None = None
    ) -> None:
        super().__init__(name, description, _keys(tag_keys))
        self.set_default_tags({})

    def set_default_tags(self, default_tags: Mapping[str, str]) -> metrics.Metric:
        """Tags that calls need not repeat, besides those of the replica."""
        _check(default_tags)
        super().set_default_tags({**default_tags, **_own()})
        return self

    def _record(self, value: float, tags: Mapping[str, str] | None) -> None:
        given = {**self._default_tags, **(tags or {})}
        if _ROUTE in self._tag_keys and _ROUTE not in given:
            tags = {**(tags or {}), _ROUTE: context.request_context.get().route}
        super()._record(value, tags)


class Counter(metrics.Counter, _OfReplica):
    """Something that only grows."""


class Gauge(metrics.Gauge, _OfReplica):
    """Something that goes up and down."""


class Histogram(metrics.Histogram, _OfReplica):
    """Counts of the values between boundaries."""
