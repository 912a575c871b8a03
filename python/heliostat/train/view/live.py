"""A live view in the terminal, drawn by `rich`; what workers print scrolls above it."""

from __future__ import annotations

import time

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from heliostat.train.controller.record import Failure, RunRecord
from heliostat.train.controller.summary import duration, summary
from heliostat.train.steps.pace import milliseconds, sentence
from heliostat.train.view.base import View
from heliostat.train.view.replicas import quorum_text
from heliostat.train.view.text import metrics_text, pace, storing_text

_MAX_WORKERS = 12
# Columns of a terminal that has room for the nodes of the workers.
_WIDE = 60
_REFRESH_PER_S = 5.0
_COLORS = {
    "running": "green",
    "finished": "cyan",
    "failed": "red",
    "died": "red",
    "ended": "yellow",
}


class LiveView(View):
    """Redraws when something has changed, at most five times a second."""

    def __init__(self, record: RunRecord) -> None:
        super().__init__(record)
        self._console = Console(stderr=True)
        self._live = Live(
            console=self._console,
            auto_refresh=False,
            transient=True,
            redirect_stdout=True,
            redirect_stderr=True,
        )
        self._drawn_at = 0.0

    def start(self) -> None:
        self._live.start()
        self.refresh()

    def refresh(self) -> None:
        now = time.monotonic()
        if now - self._drawn_at >= 1 / _REFRESH_PER_S:
            self._drawn_at = now
            self._live.update(self._draw(), refresh=True)

    def failed(self, failure: Failure, budget: str, then: str) -> None:
        self._console.print(Text(f"{failure.title} ({budget}): {then}", style="red"))

    def note(self, text: str) -> None:
        self._console.print(Text(text, style="yellow"))

    def finish(self) -> None:
        self._live.stop()
        self._console.print(self._draw())
        if self.record.page:
            self._console.print(Text(f"page of the run: {self.record.page}"), soft_wrap=True)

    def _draw(self) -> RenderableType:
        record = self.record
        facts = Table.grid(padding=(0, 2))
        facts.add_column(style="dim", no_wrap=True)
        facts.add_column(overflow="fold")
        if record.latest is not None:
            rate = record.rate()
            speed = f", {pace(rate)}" if rate is not None else ""
            facts.add_row("reports", f"{record.report_count}{speed}")
            facts.add_row("metrics", Text(metrics_text(record.latest.metrics)))
        if record.checkpoints:
            row = record.checkpoints[-1]
            age = duration(max(0.0, time.time() - row.time))
            when = f", {age} ago" if record.finished_at is None else ""
            text = f"{len(record.checkpoints)}, latest {row.checkpoint}{when}"
            facts.add_row("checkpoints", Text(text))
        if text := storing_text(record, time.time()):
            facts.add_row("in flight", Text(text))
        if text := sentence(record.step_times):
            facts.add_row("steps", Text(text))
        if text := quorum_text(record, time.time()):
            facts.add_row("groups", Text(text))
        for failure in record.failures[-3:]:
            back = f", back after {duration(failure.recovered_s)}" if failure.recovered_s else ""
            facts.add_row("failure", Text(f"{failure.title}{back}", style="red"))
        return Panel(
            Group(facts, self._workers()),
            title=Text(summary(record)),
            title_align="left",
            border_style="dim",
        )

    def _workers(self) -> RenderableType:
        if not self.record.attempts or not self.record.attempt.workers:
            return Text("workers are starting", style="dim")
        table = Table(box=None, padding=(0, 2), header_style="dim")
        wide = self._console.width >= _WIDE
        times = {each.rank: each for each in self.record.step_times} if wide else {}
        columns = ("rank", "node", "pid", "state") if wide else ("rank", "state")
        for column in (*columns, "step", "own") if times else columns:
            table.add_column(column)
        workers = self.record.attempt.workers
        for worker in workers[:_MAX_WORKERS]:
            state = Text(worker.state, style=_COLORS.get(worker.state, ""))
            place = (worker.node_ip, str(worker.pid)) if wide else ()
            own: tuple[str, ...] = ()
            if worker.rank in times:
                mine = times[worker.rank]
                own = (milliseconds(mine.total), milliseconds(mine.own))
            table.add_row(str(worker.rank), *place, state, *own)
        if len(workers) > _MAX_WORKERS:
            table.add_row("...", f"{len(workers) - _MAX_WORKERS} more")
        return table
