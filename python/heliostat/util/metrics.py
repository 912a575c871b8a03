"""Metrics of an application: counters, gauges and histograms.

Values are kept in this process; the export to Prometheus comes with the node's metrics endpoint.
"""

from __future__ import annotations

import bisect
import re
import threading
import warnings
from collections.abc import Mapping
from typing import Any

_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")

_registry_lock = threading.Lock()

Tags = tuple[tuple[str, str], ...]


class Metric:
    """The parent of every metric."""

    def __init__(
        self, name: str, description: str = "", tag_keys: tuple[str, ...] | None = None
    ) -> None:
        if not isinstance(name, str):
            raise TypeError(f"A metric's name must be a str, got {type(name)}.")
        if name == "":
            raise ValueError("Empty name is not allowed. Please provide a metric name.")
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
        self._lock = threading.Lock()
        if not self._discard:
            with _registry_lock:
                _registry[name] = self

    def set_default_tags(self, default_tags: Mapping[str, str]) -> Metric:
        """Tags that calls need not repeat."""
        for key, value in default_tags.items():
            if key not in self._tag_keys:
                raise ValueError(f"Unrecognized tag key {key}.")
            _check_tag(value)
        self._default_tags = dict(default_tags)
        return self

    @property
    def info(self) -> dict[str, Any]:
        """What the metric was made with."""
        return {
            "name": self._name,
            "description": self._description,
            "tag_keys": self._tag_keys,
            "default_tags": dict(self._default_tags),
        }

    def _tags(self, tags: Mapping[str, str] | None) -> Tags:
        given = {**self._default_tags, **(tags or {})}
        for value in given.values():
            _check_tag(value)
        missing = [key for key in self._tag_keys if key not in given]
        if missing:
            raise ValueError(f"Missing value for tag key(s): {','.join(missing)}.")
        unknown = [key for key in given if key not in self._tag_keys]
        if unknown:
            raise ValueError(f"Unrecognized tag key(s): {','.join(unknown)}.")
        return tuple(sorted(given.items()))

    def samples(self) -> dict[Tags, Any]:
        """The values of this process, by tags."""
        raise NotImplementedError

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self._arguments()

    def _arguments(self) -> tuple[Any, ...]:
        return self._name, self._description, self._tag_keys


class Counter(Metric):
    """Something that only grows."""

    def __init__(
        self, name: str, description: str = "", tag_keys: tuple[str, ...] | None = None
    ) -> None:
        super().__init__(name, description, tag_keys)
        self._values: dict[Tags, float] = {}

    def inc(self, value: float = 1.0, tags: Mapping[str, str] | None = None) -> None:
        """Add a positive number."""
        _check_number(value)
        if value <= 0:
            raise ValueError(f"value must be >0, got {value}")
        key = self._tags(tags)
        with self._lock:
            self._values[key] = self._values.get(key, 0.0) + value

    def samples(self) -> dict[Tags, float]:
        """The sums, by tags."""
        with self._lock:
            return dict(self._values)


class Gauge(Metric):
    """Something that goes up and down."""

    def __init__(
        self, name: str, description: str = "", tag_keys: tuple[str, ...] | None = None
    ) -> None:
        super().__init__(name, description, tag_keys)
        self._values: dict[Tags, float] = {}

    def set(self, value: float | None, tags: Mapping[str, str] | None = None) -> None:
        """Set it; ``None`` is ignored."""
        if value is None:
            return
        _check_number(value)
        key = self._tags(tags)
        with self._lock:
            self._values[key] = float(value)

    def samples(self) -> dict[Tags, float]:
        """The last values, by tags."""
        with self._lock:
            return dict(self._values)


class Histogram(Metric):
    """How often values fall between boundaries."""

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
        super().__init__(name, description, tag_keys)
        self.boundaries = boundaries
        self._bounds = sorted(boundaries)
        self._counts: dict[Tags, list[int]] = {}
        self._sums: dict[Tags, float] = {}

    def observe(self, value: float, tags: Mapping[str, str] | None = None) -> None:
        """Count a value."""
        _check_number(value)
        key = self._tags(tags)
        with self._lock:
            counts = self._counts.setdefault(key, [0] * (len(self._bounds) + 1))
            counts[bisect.bisect_left(self._bounds, value)] += 1
            self._sums[key] = self._sums.get(key, 0.0) + value

    def samples(self) -> dict[Tags, tuple[list[int], float]]:
        """(count of each bucket, sum of the values), by tags."""
        with self._lock:
            return {key: (list(counts), self._sums[key]) for key, counts in self._counts.items()}

    @property
    def info(self) -> dict[str, Any]:
        """What the metric was made with."""
        return {**super().info, "boundaries": self.boundaries}

    def _arguments(self) -> tuple[Any, ...]:
        return self._name, self._description, self.boundaries, self._tag_keys


_registry: dict[str, Metric] = {}


def registered() -> dict[str, Metric]:
    """Every metric of this process, by name."""
    with _registry_lock:
        return dict(_registry)


def _check_number(value: Any) -> None:
    if not isinstance(value, int | float):
        raise TypeError(f"value must be int or float, got {type(value)}.")


def _check_tag(value: Any) -> None:
    if not isinstance(value, str):
        raise TypeError(f"Tag values must be str, got {type(value)}.")
