"""Metrics of an application: counters, gauges and histograms.

Values are kept in this process. Its node's daemon serves them, with the runtime's own, in the format
of Prometheus: at ``http://<node>:<MetricsExportPort of ray.nodes()>/metrics``, to who shows the
cluster's token. A cluster that ``init`` starts for one machine opens that port only when given
``_metrics_export_port`` (0: any). A metric is exported as ``ray_<name>``, a counter also as
``ray_<name>_total``.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence, Sized
from enum import IntEnum
from typing import Any, ClassVar

from heliostat import _heliostat

_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")


class _Kind(IntEnum):
    """Numbers of `MetricKind` (helio-proto)."""

    COUNTER = 0
    GAUGE = 1
    HISTOGRAM = 2


def forget(key: str, value: str) -> None:
    """Let go of all series of this process that have this tag: what they measured is over. Not in Ray."""
    _heliostat.forget_metrics(key, value)


class Metric:
    """The parent of every metric.

    Args:
        name: Letters, digits, ``_`` and ``:``; it begins with no digit, else a warning says that the
            metric is left out.
        description: A text for people. Default: none.
        tag_keys: The keys of its tags. Default: none.

    Raises:
        ValueError: The name is empty.
        TypeError: An argument has another type.
    """

    _kind: ClassVar[_Kind]

    def __init__(
        self, name: str, description: str = "", tag_keys: tuple[str, ...] | None = None
    ) -> None:
        given: object = name
        if isinstance(given, Sized) and not given:
            raise ValueError("Empty name is not allowed. Please provide a metric name.")
        if not isinstance(name, str):
            raise TypeError(f"A metric's name must be a str, got {type(name)}.")
        if not isinstance(description, str):
            raise TypeError(f"A metric's description must be a str, got {type(description)}.")
        keys: tuple[str, ...] = tag_keys or ()
        if not isinstance(keys, tuple):
            raise TypeError(f"tag_keys should be a tuple type, got: {type(keys)}")
        for key in keys:
            if not isinstance(key, str):
                raise TypeError(f"Tag keys must be str, got {type(key)}.")
        self._discard = _NAME.fullmatch(name) is None
        if self._discard:
            warnings.warn(
                f"Invalid metric name: {name}. The metric will be discarded. Metric names can only "
                "contain letters, numbers, _, and :. Metric names cannot start with numbers.",
                stacklevel=3,
            )
        self._name = name
        self._description = description
        self._tag_keys = keys
        self._default_tags: dict[str, str] = {}
        if not self._discard:
            _heliostat.declare_metric(name, description, self._kind, self._bounds())

    def set_default_tags(self, default_tags: Mapping[str, str]) -> Metric:
        """Set tags that calls need not repeat.

        Args:
            default_tags: Texts by key.

        Returns:
            The metric itself.

        Raises:
            ValueError: A key is none of ``tag_keys``.
        """
        for key, value in default_tags.items():
            if key not in self._tag_keys:
                raise ValueError(f"Unrecognized tag key {key}.")
            _check_tag(value)
        self._default_tags = dict(default_tags)
        return self

    @property
    def info(self) -> dict[str, Any]:
        """The arguments that the metric was made with."""
        return {
            "name": self._name,
            "description": self._description,
            "tag_keys": self._tag_keys,
            "default_tags": dict(self._default_tags),
        }

    def _tags(self, tags: Mapping[str, str] | None) -> list[tuple[str, str]]:
        given = {**self._default_tags, **(tags or {})}
        for value in given.values():
            _check_tag(value)
        missing = [key for key in self._tag_keys if key not in given]
        if missing:
            raise ValueError(f"Missing value for tag key(s): {','.join(missing)}.")
        # Others are left out, as Ray does: a series has the tags that the metric was made with.
        return sorted((key, given[key]) for key in self._tag_keys)

    def _record(self, value: float, tags: Mapping[str, str] | None) -> None:
        checked = self._tags(tags)
        if not self._discard:
            _heliostat.record_metric(self._name, checked, float(value))

    def _bounds(self) -> list[float]:
        return []

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self._arguments()

    def _arguments(self) -> tuple[Any, ...]:
        return self._name, self._description, self._tag_keys


class Counter(Metric):
    """Something that only grows.

    Raises:
        TypeError: An argument has another type.
        ValueError: It has no name.

    Examples:
        >>> import ray
        >>> from ray.util.metrics import Counter
        >>> requests = Counter("requests", description="Requests", tag_keys=("route",))
        >>> requests.inc(1.0, tags={"route": "/"})
    """

    _kind = _Kind.COUNTER

    def inc(self, value: float = 1.0, tags: Mapping[str, str] | None = None) -> None:
        """Add a positive number.

        Args:
            value: The number. Default 1.
            tags: Tags of this value by key; those of ``set_default_tags`` otherwise.

        Raises:
            ValueError: It is not positive, or a tag is missing.
            TypeError: It is not a number.
        """
        _check_number(value)
        if value <= 0:
            raise ValueError(f"value must be >0, got {value}")
        self._record(value, tags)


class Gauge(Metric):
    """Something that goes up and down.

    Raises:
        TypeError: An argument has another type.
        ValueError: It has no name.

    Examples:
        >>> from ray.util.metrics import Gauge
        >>> waiting = Gauge("jobs_waiting", description="Jobs that wait", tag_keys=("queue",))
        >>> waiting.set(3, tags={"queue": "fast"})
    """

    _kind = _Kind.GAUGE

    def set(self, value: float | None, tags: Mapping[str, str] | None = None) -> None:
        """Set the value.

        Args:
            value: The number; ``None`` is ignored.
            tags: Tags of this value by key; those of ``set_default_tags`` otherwise.

        Raises:
            ValueError: a tag is missing.
        """
        if value is None:
            return
        _check_number(value)
        self._record(value, tags)


class Histogram(Metric):
    """Counts of the values between boundaries.

    Args:
        name: Letters, digits, ``_`` and ``:``; it begins with no digit, else a warning says that the
            metric is left out.
        description: A text for people. Default: none.
        boundaries: Upper bounds of the buckets: positive numbers.
        tag_keys: The keys of its tags. Default: none.

    Raises:
        ValueError: It has no name, or no boundaries; a boundary is not positive.

    Examples:
        >>> from ray.util.metrics import Histogram
        >>> latency = Histogram("latency_s", description="Latency", boundaries=[0.01, 0.1, 1.0])
        >>> latency.observe(0.03)
    """

    _kind = _Kind.HISTOGRAM

    def __init__(
        self,
        name: str,
        description: str = "",
        boundaries: list[float] | None = None,
        tag_keys: tuple[str, ...] | None = None,
    ) -> None:
        if not boundaries:
            raise ValueError(
                "boundaries argument should be provided when using the Histogram class. "
                'e.g., Histogram("name", boundaries=[1.0, 2.0])'
            )
        for index, boundary in enumerate(boundaries):
            if boundary <= 0:
                raise ValueError(
                    f"Invalid `boundaries` argument at index {index}, {boundaries}. "
                    "Use positive values for the arguments."
                )
        self.boundaries = boundaries
        super().__init__(name, description, tag_keys)

    def observe(self, value: float, tags: Mapping[str, str] | None = None) -> None:
        """Count a value.

        Args:
            value: The value.
            tags: Tags of this value by key; those of ``set_default_tags`` otherwise.

        Raises:
            ValueError: a tag is missing.
        """
        _check_number(value)
        self._record(value, tags)

    def _observe_each(self, values: Sequence[float], tags: Mapping[str, str] | None) -> None:
        """Count many values with the same tags."""
        checked = self._tags(tags)
        if not self._discard:
            for value in values:
                _heliostat.record_metric(self._name, checked, value)

    @property
    def info(self) -> dict[str, Any]:
        """The arguments that the metric was made with."""
        return {**super().info, "boundaries": self.boundaries}

    def _bounds(self) -> list[float]:
        return sorted(float(boundary) for boundary in self.boundaries)

    def _arguments(self) -> tuple[Any, ...]:
        return self._name, self._description, self.boundaries, self._tag_keys


def _check_number(value: Any) -> None:
    if not isinstance(value, int | float):
        raise TypeError(f"value must be int or float, got {type(value)}.")


def _check_tag(value: Any) -> None:
    if not isinstance(value, str):
        raise TypeError(f"Tag values must be str, got {type(value)}.")
