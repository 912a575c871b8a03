"""What ``heliostat why <run>`` says of a run, kept by the cluster's head so that it outlives the driver."""

from __future__ import annotations

import contextlib
import json
import time
from typing import Any

import heliostat as ray
from heliostat.experimental import internal_kv
from heliostat.train.controller.record import RunRecord
from heliostat.train.controller.results import duration, summary
from heliostat.train.steps import pace
from heliostat.train.steps.words import PHASES, StepTimes

# The command line reads the same namespace (helio-cli, why_run.rs).
NAMESPACE = "_train_runs"
# Runs that a cluster knows; those of the oldest go when more begin.
MAX_RUNS = 100
# What has changed is written no more often; a state of its own at once.
_PERIOD_S = 5.0
_MAX_RANKS, _MAX_NOTES, _MAX_NOTE = 64, 5, 20_000


class Told:
    """Writes what there is to say of one run."""

    def __init__(self, record: RunRecord) -> None:
        self._record = record
        self._key = f"{time.time_ns():020d}-{record.run_id}"
        self._is_on = False
        self._written_at = 0.0
        self._written = ""
        self._state = ""

    def begin(self) -> None:
        """The run begins; the oldest ones make room for it."""
        with contextlib.suppress(ray.exceptions.RayError):
            known = sorted(internal_kv._internal_kv_list(b"", namespace=NAMESPACE))
            for old in known[: max(0, len(known) - MAX_RUNS + 1)]:
                internal_kv._internal_kv_del(old, namespace=NAMESPACE)
            self._is_on = True
        self.refresh()

    def refresh(self) -> None:
        """Write what has changed."""
        now, state = time.monotonic(), self._record.state
        if not self._is_on or (state == self._state and now - self._written_at < _PERIOD_S):
            return
        self._written_at, self._state = now, state
        text = explained(self._record)
        if text == self._written:
            return
        self._written = text
        about: dict[str, Any] = {
            "name": self._record.name,
            "run_id": self._record.run_id,
            "job_id": ray.get_runtime_context().get_job_id(),
            "is_over": self._record.finished_at is not None,
            "text": text,
        }
        # What is trained is worth more than what is told of it.
        with contextlib.suppress(ray.exceptions.RayError):
            internal_kv._internal_kv_put(self._key, json.dumps(about), namespace=NAMESPACE)

    def end(self) -> None:
        """The run is over."""
        self._written_at = -_PERIOD_S
        self._state = ""
        self.refresh()


def explained(record: RunRecord) -> str:
    """The state of a run, where its steps' time goes, and what has happened, in a few lines."""
    lines = [f"The training run {summary(record)} ({record.path})."]
    if record.latest is not None:
        ago = duration(max(0.0, (record.finished_at or time.time()) - record.latest.time))
        lines.append(f"Last report: number {record.report_count}, {ago} before this was written.")
    times = record.step_times
    if text := pace.sentence(times):
        lines.append(f"Steps: {text}.")
    if times:
        lines += table(times)
    for failure in record.failures[-_MAX_NOTES:]:
        lines.append(f"Failure, attempt {failure.attempt + 1}: {failure.title}.")
    for at, text in record.notes[-_MAX_NOTES:]:
        after = duration(max(0.0, at - record.started_at))
        lines.append(f"After {after}: {text[:_MAX_NOTE]}")
    return "\n".join(lines)


def table(times: list[StepTimes]) -> list[str]:
    """A row a rank: the mean step by phase; of many, those with the longest steps of their own."""
    shown = sorted(times, key=lambda t: -t.own)[:_MAX_RANKS]
    rows = [["rank", "steps", "step", "own", *PHASES]]
    for each in sorted(shown, key=lambda t: t.rank):
        figures = (each.total, each.own, *each.spent)
        rows.append([str(each.rank), str(each.steps), *map(pace.milliseconds, figures)])
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = ["  ".join(f"{c:>{w}}" for c, w in zip(row, widths, strict=True)) for row in rows]
    if len(times) > len(shown):
        lines.append(f"... and {len(times) - len(shown)} ranks with shorter steps")
    return lines
