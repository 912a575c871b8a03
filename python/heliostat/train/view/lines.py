"""Plain lines, for logs and pipes: few, each complete by itself."""

from __future__ import annotations

import sys
import time

from heliostat.train.controller.record import Failure, RunRecord
from heliostat.train.controller.summary import duration, summary
from heliostat.train.messages import ReportedRow
from heliostat.train.steps.pace import sentence
from heliostat.train.view.base import View
from heliostat.train.view.text import metrics_text, pace, places

# At most one line about reports in this time; the last one is always shown.
_REPORT_PERIOD_S = 2.0


class LineView(View):
    """Writes to stderr."""

    def __init__(self, record: RunRecord) -> None:
        super().__init__(record)
        self._shown_at = 0.0
        self._shown: ReportedRow | None = None

    def _say(self, text: str) -> None:
        seconds = time.time() - self.record.started_at
        sys.stderr.write(f"train {seconds:7.1f}s  {text}\n")
        sys.stderr.flush()

    def start(self) -> None:
        resumed = self.record.resumed_from
        self._say(
            f"run {self.record.name} in {self.record.path}"
            + (f", resumed from {resumed}" if resumed else "")
        )

    def attempt_started(self) -> None:
        attempt = self.record.attempt
        took = (attempt.started_at or 0.0) - attempt.requested_at
        kept = sum(1 for w in attempt.workers if w.reused)
        text = f"{places([w.node_ip for w in attempt.workers])} ready in {duration(took)}"
        if kept:
            text += f" ({kept} kept)"
        if attempt.from_checkpoint:
            text += f", from {attempt.from_checkpoint}"
        self._say(text)

    def reported(self, row: ReportedRow) -> None:
        now = time.monotonic()
        if now - self._shown_at >= _REPORT_PERIOD_S:
            self._show(row)
            self._shown_at = now

    def _show(self, row: ReportedRow) -> None:
        self._shown = row
        rate = self.record.rate()
        text = f"report {row.index + 1}  {metrics_text(row.metrics)}"
        if rate is not None:
            text += f"  ({pace(rate)})"
        if row.checkpoint:
            text += f"  [{row.checkpoint}]"
        self._say(text)

    def failed(self, failure: Failure, budget: str, then: str) -> None:
        self._show_latest()
        self._say(f"failure: {failure.title} ({budget})")
        self._say(then)

    def note(self, text: str) -> None:
        self._say(text)

    def _show_latest(self) -> None:
        latest = self.record.latest
        if latest is not None and latest is not self._shown:
            self._show(latest)

    def finish(self) -> None:
        self._show_latest()
        self._say(summary(self.record))
        if text := sentence(self.record.step_times):
            self._say(f"steps: {text}")
        if self.record.page:
            self._say(f"page of the run: {self.record.page}")
