"""A run in a line of words."""

from __future__ import annotations

import time

from heliostat.train.controller.record import RunRecord


def summary(record: RunRecord) -> str:
    """The run in one line."""
    seconds = (record.finished_at or time.time()) - record.started_at
    sizes = [a.world_size for a in record.attempts]
    size = f"{sizes[-1]} worker{'s' if sizes[-1] != 1 else ''}" if sizes else "no workers"
    if len(set(sizes)) > 1:
        size = f"{min(sizes)} to {max(sizes)} workers"
    replaced = sum(f.went_on for f in record.failures)
    restarts = len(record.failures) - replaced - (record.state != "finished")
    parts = [
        f"{record.state} after {duration(seconds)}",
        size,
        f"{record.report_count} report{'s' if record.report_count != 1 else ''}",
    ]
    if restarts > 0:
        parts.append(f"{restarts} restart{'s' if restarts != 1 else ''}")
    if record.slow_replaced:
        count = record.slow_replaced
        parts.append(f"{count} slow rank{'s' if count != 1 else ''} replaced")
    if replaced:
        parts.append(f"{replaced} replica group{'s' if replaced != 1 else ''} replaced")
    return f"{record.name}: {', '.join(parts)}"


def duration(seconds: float) -> str:
    """``850 ms``, ``12.3 s``, ``4 min 05 s`` or ``2 h 10 min``."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    if seconds < 3600:
        return f"{seconds // 60:.0f} min {seconds % 60:02.0f} s"
    return f"{seconds // 3600:.0f} h {seconds % 3600 // 60:02.0f} min"
