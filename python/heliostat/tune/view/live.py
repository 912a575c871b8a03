"""A table of the search in the terminal, drawn by `rich`; what trials print scrolls above it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console, Group, RenderableType
from rich.errors import LiveError
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from heliostat.train.controller.summary import duration
from heliostat.train.view.text import number
from heliostat.tune.progress import STATES, Progress, best_trial
from heliostat.tune.runner.trial import RUNNING, Trial
from heliostat.tune.stopper import flattened
from heliostat.tune.view.rows import errors_of, left_s, rows_of

if TYPE_CHECKING:
    from heliostat.tune.runner.search import Search

_REFRESH_S = 0.5
_TRIALS, _ERRORS, _PARAMETERS = 12, 3, 6


class LiveTable(Progress):
    """Redraws at most twice a second: what runs, the best so far, the time left, and errors.

    Raises:
        LiveError: Another table is drawn already.
    """

    def __init__(
        self,
        verbose: int,
        metric: str | None,
        mode: str | None,
        total: int | None,
        budget_s: float | None = None,
        console: Console | None = None,
    ) -> None:
        super().__init__(verbose, metric, mode, total)
        self._started_at = time.time()
        self._until = None if budget_s is None else self._started_at + budget_s
        self._console = console or Console()
        self._live = Live(
            console=self._console,
            auto_refresh=False,
            transient=True,
            redirect_stdout=True,
            redirect_stderr=True,
        )
        self._live.start()
        self._drawn_at = 0.0

    def show(self, search: Search) -> None:
        now = time.monotonic()
        if now - self._drawn_at >= _REFRESH_S:
            self._drawn_at = now
            self._live.update(self.draw(search.get_trials()), refresh=True)

    def close(self) -> None:
        self._live.stop()

    def end(self, trials: list[Trial], folder: str) -> None:
        self.close()
        super().end(trials, folder)

    def draw(self, trials: Sequence[Trial]) -> RenderableType:
        """Return the table of these trials."""
        facts = Table.grid(padding=(0, 2))
        facts.add_column(style="dim", no_wrap=True)
        facts.add_column(overflow="fold")
        facts.add_row("trials", Text(self._counts(trials)))
        best = best_trial(list(trials), self._metric, self._mode)
        if best is not None and self._metric is not None:
            value = _shown(flattened(best.last_result).get(self._metric))
            chosen = ", ".join(f"{n}={_shown(v)}" for n, v in best.evaluated_params.items())
            facts.add_row("best", Text(f"{self._metric}={value}  {best}  {chosen}"))
        failed = rows_of([trial for trial in trials if trial.status == "ERROR"], None)
        for text, group in errors_of(failed)[:_ERRORS]:
            facts.add_row("failed", Text(f"{len(group)}x {text}", style="red"))
        return Panel(
            Group(facts, self._running(trials)),
            title=Text(f"search, {duration(time.time() - self._started_at)}"),
            title_align="left",
            border_style="dim",
        )

    def _counts(self, trials: Sequence[Trial]) -> str:
        counts = Counter(trial.status for trial in trials)
        states = ", ".join(f"{counts[state]} {state}" for state in STATES if counts[state])
        of = f" of {self._total}" if self._total is not None else ""
        ended = counts["TERMINATED"] + counts["ERROR"]
        left = left_s(ended, self._total, self._started_at, self._until)
        return f"{len(trials)}{of} ({states})" + (
            f", about {duration(left)} left" if left is not None else ""
        )

    def _running(self, trials: Sequence[Trial]) -> RenderableType:
        running = [trial for trial in trials if trial.status == RUNNING]
        if not running:
            return Text("nothing runs", style="dim")
        names = list(dict.fromkeys(n for trial in running for n in trial.evaluated_params))
        table = Table(box=None, padding=(0, 2), header_style="dim")
        metric = [self._metric] if self._metric else []
        for title in ("trial", *names[:_PARAMETERS], "iteration", "time", *metric):
            table.add_column(title, no_wrap=True, overflow="ellipsis")
        for trial in running[:_TRIALS]:
            result = flattened(trial.last_result)
            cells = [_shown(trial.evaluated_params.get(name)) for name in names[:_PARAMETERS]]
            cells.append(str(result.get("training_iteration", "")))
            cells.append(duration(float(result.get("time_total_s") or 0.0)))
            cells += [_shown(result.get(name)) for name in metric]
            table.add_row(str(trial), *cells)
        if len(running) > _TRIALS:
            table.add_row(f"... {len(running) - _TRIALS} more")
        return table


def _shown(value: object) -> str:
    if value is None:
        return ""
    text = number(value) if isinstance(value, float) else str(value)
    return text if len(text) <= 24 else f"{text[:23]}…"


__all__ = ["LiveError", "LiveTable"]
