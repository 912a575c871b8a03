"""Whether checkpoints have the metric that is to rank them."""

from __future__ import annotations

from typing import Any

from heliostat.train.metrics import lookup

# Names of metrics in the warning.
_NAMES_MAX = 20


class ScoreCheck:
    """Sees the metrics of a run's checkpoints; without an attribute nothing is missing."""

    def __init__(self, attribute: str | None) -> None:
        self._attribute = attribute
        self._names: set[str] = set()
        self._has_checkpoints = False
        self._is_over = attribute is None  # it was reported, or the warning was given

    def add(self, metrics: dict[str, Any]) -> None:
        """Take in the metrics of a checkpoint."""
        if self._attribute is None or self._is_over:
            return
        self._has_checkpoints = True
        self._names.update(metrics)
        self._is_over = lookup(metrics, self._attribute) is not None

    def warning(self) -> str | None:
        """The warning that no checkpoint has the metric, once; ``None``: one has it, or there is none."""
        if self._is_over or not self._has_checkpoints:
            return None
        self._is_over = True
        names = sorted(self._names)
        more = f" and {len(names) - _NAMES_MAX} more" if len(names) > _NAMES_MAX else ""
        reported = ", ".join(map(repr, names[:_NAMES_MAX])) or "no metrics"
        return (
            f"checkpoint_score_attribute={self._attribute!r} was not reported with any checkpoint, only "
            f"{reported}{more}: the latest checkpoints count as the best"
        )
