"""The files that a run leaves in its folder for later readers: reports, steps, failures. Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from heliostat.train.controller.record import RunRecord
from heliostat.train.steps.messages import PHASES, StepTimes

# Reports that are kept, the latest.
_MAX_REPORTS = 10_000


@dataclass
class SavedRun:
    """A run that is over; what an older version has not saved is empty."""

    name: str = ""
    state: str = ""
    summary: str = ""
    reports: list[dict[str, Any]] = field(default_factory=list)
    # Seconds from the start of the run to each report.
    at_s: list[float] = field(default_factory=list)
    # Seconds since the epoch at its start, and how long it took.
    started_at: float = 0.0
    took_s: float = 0.0
    workers: int = 0
    report_count: int = 0
    steps: list[StepTimes] = field(default_factory=list)
    # (seconds from the start, event); of a checkpoint also the seconds that it was on its way.
    failures: list[tuple[float, str]] = field(default_factory=list)
    checkpoints: list[tuple[float, float]] = field(default_factory=list)

    @staticmethod
    def load(data: bytes) -> SavedRun:
        """Read what ``dump`` wrote.

        Raises:
            ValueError: It is something else.
        """
        try:
            found = json.loads(data)
            if not isinstance(found, dict):
                raise ValueError("it is not a JSON object")
            known = {name: found[name] for name in SavedRun.__dataclass_fields__ if name in found}
            rows = known.pop("steps", [])
            run = SavedRun(**known)
            run.steps = [StepTimes(int(rank), int(n), tuple(spent)) for rank, n, spent in rows]
            if any(len(times.spent) != len(PHASES) for times in run.steps):
                raise ValueError("steps have other phases")
        except (AttributeError, TypeError, ValueError) as error:
            raise ValueError(f"the reports of the run cannot be read: {error}") from error
        run.report_count = run.report_count or len(run.reports)
        return run


def dump(record: RunRecord, summary: str) -> bytes:
    """The content of the file of reports."""
    start, rows = record.started_at, list(record.reports)[-_MAX_REPORTS:]
    content = {
        "reports": [r.metrics for r in rows],
        "state": record.state,
        "summary": summary,
        "name": record.name,
        "at_s": [round(r.time - start, 6) for r in rows],
        "started_at": start,
        "took_s": (record.finished_at or start) - start,
        "workers": record.attempts[-1].world_size if record.attempts else 0,
        "report_count": record.report_count,
        "steps": [(t.rank, t.steps, t.spent) for t in record.step_times],
        "failures": [(f.time - start, f.title) for f in record.failures],
        "checkpoints": [(r.time - start, r.in_flight_s) for r in record.checkpoints],
    }
    return json.dumps(content, default=str).encode()
