"""Pieces of text that the views share. Pure."""

from __future__ import annotations

from typing import Any

from heliostat.train.controller.record import RunRecord
from heliostat.train.controller.summary import duration
from heliostat.train.coordinator.attempt import ranks_text

_SHOWN_METRICS, _MAX_DIGITS = 8, 20


def number(value: float) -> str:
    """A number in few characters."""
    if isinstance(value, int):
        text = str(value)
        return text if len(text) <= _MAX_DIGITS else f"{text[:4]}... ({len(text)} digits)"
    return f"{value:.4g}"


def pace(per_second: float) -> str:
    """A rate in words: ``12.5/s``, or ``one every 4.2 s``."""
    if per_second >= 1:
        return f"{per_second:.3g}/s"
    return f"one every {1 / per_second:.3g} s"


def metrics_text(metrics: dict[str, Any]) -> str:
    """The plain values of a report, as ``loss=0.31  epoch=4``."""
    parts = []
    for key, value in metrics.items():
        if isinstance(value, int | float):
            parts.append(f"{key}={number(value)}")
        elif isinstance(value, str) and len(value) <= 24:
            parts.append(f"{key}={value}")
        if len(parts) == _SHOWN_METRICS:
            break
    return "  ".join(parts)


def storing_text(record: RunRecord, now: float) -> str:
    """Return which checkpoints are written or uploaded and not there yet; "" when none is."""
    parts = []
    for report, storing in sorted(record.storing.items()):
        who = ranks_text(sorted(storing.ranks))
        if len(storing.ranks) == record.attempt.world_size > 1:
            who = "all ranks"
        parts.append(
            f"of report {report + 1}: {who}, for {duration(max(0.0, now - storing.since))}"
        )
    return "; ".join(parts)


def places(nodes: list[str]) -> str:
    """``4 workers on 10.0.0.1`` or ``8 workers on 2 nodes``."""
    count = f"{len(nodes)} worker{'s' if len(nodes) != 1 else ''}"
    unique = sorted(set(nodes))
    return f"{count} on {unique[0]}" if len(unique) == 1 else f"{count} on {len(unique)} nodes"
