"""The state of a run as plain data for the head's page. Pure."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

from heliostat.train.controller.record import AttemptRecord, RunRecord
from heliostat.train.steps.messages import PHASES
from heliostat.train.view.curves import numbers

# The page shows so many of each; of ranks those with the longest steps of their own.
_MAX_RANKS, _MAX_CHECKPOINTS, _MAX_REPLACEMENTS, _MAX_METRICS, _MAX_TITLE = 64, 10, 20, 12, 500
_MAX_ATTEMPTS = 20
# States of workers of which there is nothing to say.
_WELL = ("running", "finished")


def seen(record: RunRecord) -> dict[str, Any]:
    """Times are seconds since the epoch, and durations in seconds."""
    quorum = record.quorum if record.attempts else None
    latest = numbers(record.latest.metrics) if record.latest is not None else []
    times = sorted(record.step_times, key=lambda t: -t.own)[:_MAX_RANKS]
    lost = [f for f in record.failures if f.went_on][-_MAX_REPLACEMENTS:]
    size = record.quorums[-1].size if record.quorums else 1
    return {
        "state": record.state,
        "path": record.path,
        "started_at": record.started_at,
        "finished_at": record.finished_at,
        "workers": record.attempts[-1].world_size if record.attempts else 0,
        "reports": record.report_count,
        "failures": len(record.failures),
        "reports_per_s": _rate(record),
        "checkpoint_count": len(record.checkpoints),
        "in_flight_mean_s": _mean([row.in_flight_s for row in record.checkpoints]),
        "ranks": _ranks(record),
        "attempts": [_attempt(record, attempt) for attempt in record.attempts[-_MAX_ATTEMPTS:]],
        "metrics": {k: v for k, v in latest[:_MAX_METRICS] if math.isfinite(v)},
        "phases": PHASES,
        "times": [
            {"rank": t.rank, "steps": t.steps, "spent": t.spent}
            for t in sorted(times, key=lambda t: t.rank)
        ],
        "storing": [
            {"report": report, "ranks": sorted(storing.ranks), "since": storing.since}
            for report, storing in sorted(record.storing.items())
        ],
        "checkpoints": [
            {"name": str(row.checkpoint), "at": row.time, "in_flight_s": row.in_flight_s}
            for row in record.checkpoints[-_MAX_CHECKPOINTS:]
        ],
        "quorum": None
        if quorum is None
        else {
            "number": quorum.number,
            "step": quorum.step,
            "groups": quorum.groups,
            "of": quorum.of,
        },
        "replacements": [
            {
                "at": f.time,
                "group": f.ranks[0] // size,
                "title": f.title[:_MAX_TITLE],
                "replaced_s": f.replaced_s,
            }
            for f in lost
        ],
    }


def _ranks(record: RunRecord) -> list[dict[str, Any]]:
    """The latest process of each rank; of many ranks, those that do not run come first."""
    begun: Counter[int] = Counter()
    for attempt in record.attempts:
        begun.update(span.rank for span in attempt.workers if not span.reused)
    # An attempt that waits for its workers shows those of the one before.
    last = next((attempt.workers for attempt in reversed(record.attempts) if attempt.workers), [])
    latest = {span.rank: span for span in last}
    spans = sorted(latest.values(), key=lambda span: (span.state in _WELL, span.rank))
    rows: list[dict[str, Any]] = []
    for span in sorted(spans[:_MAX_RANKS], key=lambda span: span.rank):
        reports, at = record.reported.get(span.rank, (0, None))
        rows.append(
            {
                "rank": span.rank,
                "state": span.state,
                "node_id": span.node_id,
                "host": span.hostname,
                "pid": span.pid,
                "worker_id": span.worker_id,
                "actor_id": span.actor_id,
                "reports": reports,
                "reported_at": at,
                "restarts": max(0, begun[span.rank] - 1),
            }
        )
    return rows


def _attempt(record: RunRecord, attempt: AttemptRecord) -> dict[str, Any]:
    """Return the row of a run of the training function; a failure that has ended it is its cause."""
    causes = [f for f in record.failures if f.attempt == attempt.number and not f.went_on]
    cause = causes[-1] if causes else None
    return {
        "number": attempt.number,
        "at": attempt.started_at or attempt.requested_at,
        "workers": attempt.world_size,
        "from": attempt.from_checkpoint,
        "ended_at": attempt.ended_at,
        "cause": cause and cause.title[:_MAX_TITLE],
        "recovered_s": cause and cause.recovered_s,
    }


def _rate(record: RunRecord) -> float | None:
    """Reports a second between the first and the last that are remembered."""
    if len(record.reports) < 2:
        return None
    span = record.reports[-1].time - record.reports[0].time
    return (len(record.reports) - 1) / span if span > 0 else None


def _mean(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None
