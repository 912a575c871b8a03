"""The text of ``heliostat why <run>`` and of the head's page about a run, kept where it outlives
the driver.
"""

from __future__ import annotations

import contextlib
import json
import time
from typing import Any

import heliostat as ray
from heliostat.experimental import internal_kv
from heliostat.train.controller.live_curves import LiveCurves
from heliostat.train.controller.record import RunRecord
from heliostat.train.controller.seen import seen
from heliostat.train.controller.summary import duration, summary
from heliostat.train.steps import pace
from heliostat.train.steps.messages import PHASES, StepTimes
from heliostat.train.view.replicas import quorum_text
from heliostat.train.view.text import storing_text

# The command line reads the same namespace (helio-cli, why_run.rs), and the page (helio-dashboard,
# train_routes.rs).
NAMESPACE = "_train_runs"
# The page asks for the metrics of the runs that are looked at, by the same keys.
CURVES = "_train_curves"
# Runs that a cluster knows; those of the oldest go when more begin.
MAX_RUNS = 100
# The shortest time between two writes of changes. A state of the run is written at once, and soon what passes
# quickly: a checkpoint that is on its way, a group that is lost or in again.
_PERIOD_S = 5.0
_SOON_S = 1.0
_MAX_RANKS, _MAX_NOTES, _MAX_NOTE = 64, 5, 20_000


class RunRow:
    """Writes what there is to say of one run."""

    def __init__(self, record: RunRecord) -> None:
        self._record = record
        self._key = f"{time.time_ns():020d}-{record.run_id}"
        self._is_on = False
        self._written_at = 0.0
        self._written: dict[str, Any] = {}
        self._state = ""
        self._passing: Any = None
        self._curves = LiveCurves(record)

    def begin(self) -> None:
        """The run begins; the oldest ones make room for it."""
        with contextlib.suppress(ray.exceptions.RayError):
            known = sorted(internal_kv._internal_kv_list(b"", namespace=NAMESPACE))
            for old in known[: max(0, len(known) - MAX_RUNS + 1)]:
                for namespace in (NAMESPACE, CURVES):
                    internal_kv._internal_kv_del(old, namespace=namespace)
            self._is_on = True
        self.refresh()

    def refresh(self) -> None:
        """Write what has changed."""
        now, state, passing = time.monotonic(), self._record.state, _passing(self._record)
        period = _PERIOD_S if passing == self._passing else _SOON_S
        if not self._is_on or (state == self._state and now - self._written_at < period):
            return
        self._written_at, self._state, self._passing = now, state, passing
        about: dict[str, Any] = {
            "name": self._record.name,
            "run_id": self._record.run_id,
            "job_id": ray.get_runtime_context().get_job_id(),
            "is_over": self._record.finished_at is not None,
            "text": explained(self._record),
            "seen": seen(self._record),
        }
        if about == self._written:
            return
        is_first, self._written = not self._written, dict(about)
        about["written_at"] = time.time()
        has_new = self._curves.take()
        # A row that cannot be written does not end the training.
        with contextlib.suppress(ray.exceptions.RayError):
            # Before the run itself: whoever knows of it finds its curves, empty at first.
            if has_new or is_first:
                curves = _packed(self._curves.plain())
                internal_kv._internal_kv_put(self._key, curves, namespace=CURVES)
            internal_kv._internal_kv_put(self._key, _packed(about), namespace=NAMESPACE)

    def end(self) -> None:
        """The run is over."""
        self._written_at = -_PERIOD_S
        self._state = ""
        self.refresh()


def _packed(about: dict[str, Any]) -> bytes:
    """JSON; names come from users, and what UTF-8 cannot hold must not hide the rest."""
    return json.dumps(about, ensure_ascii=False).encode(errors="replace")


def _passing(record: RunRecord) -> Any:
    number = len(record.quorums) and record.quorums[-1].number
    return set(record.storing), number, sum(f.replaced_s is None for f in record.failures)


def explained(record: RunRecord) -> str:
    """The state of a run, where its steps' time goes, and what has happened, in a few lines."""
    lines = [f"The training run {summary(record)} ({record.path})."]
    lines += [f"Waits for {text}" for text in record.waits]
    if record.latest is not None:
        ago = duration(max(0.0, (record.finished_at or time.time()) - record.latest.time))
        lines.append(f"Last report: number {record.report_count}, {ago} before this was written.")
    times = record.step_times
    if text := pace.sentence(times):
        lines.append(f"Steps: {text}.")
    if times:
        lines += table(times)
    now = record.finished_at or time.time()
    if text := storing_text(record, now):
        lines.append(f"Checkpoints on their way, {text}.")
    if text := quorum_text(record, now):
        lines.append(f"Replica groups: {text}.")
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
