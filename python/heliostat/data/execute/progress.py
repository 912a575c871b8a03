"""The progress of a long execution: live bars in a terminal, rare lines of text elsewhere."""

from __future__ import annotations

import contextlib
import logging
import sys
import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from heliostat.data.context import DataContext
from heliostat.data.execute.page_row import bound
from heliostat.data.execute.physical import Physical
from heliostat.data.plan.operators import Bundle

if TYPE_CHECKING:
    from rich.live import Live

    from heliostat.data.execute.progress_bars import Bars

QUIET_S = 3.0  # nothing is shown before
LIVE_EVERY_S = 0.25
LINE_EVERY_S = 30.0

logger = logging.getLogger("heliostat.data")

_terminal = threading.Lock()  # held by the execution that shows itself, in whichever thread it runs


class Progress:
    """Shows one execution, if it takes long and the context does not forbid it."""

    def __init__(self, label: str, context: DataContext) -> None:
        self._label = label
        self._on = context.enable_progress_bars
        self._rich = context.enable_rich_progress_bars
        self._begun = self._shown = time.monotonic()
        self._rows = 0
        self._bytes = 0
        self._live: Live = None  # until something is shown
        self._lines = 0

    def yielded(self, bundle: Bundle) -> None:
        """Count a block that was put out."""
        self._rows += bundle.rows
        self._bytes += bundle.size

    def show(self, operators: Sequence[Physical]) -> None:
        """Called often; shows something now and then."""
        now = time.monotonic()
        if not self._on or now - self._begun < QUIET_S:
            return
        if self._is_live():
            if now - self._shown >= LIVE_EVERY_S:
                self._shown = now
                self._live.update(self._bars(operators, now), refresh=True)
        elif now - max(self._shown, self._begun) >= LINE_EVERY_S:
            self._shown = now
            self._lines += 1
            logger.info("%s", self._text(operators, now))

    def _is_live(self) -> bool:
        if self._live is not None:
            return True
        if not (self._rich and sys.stderr.isatty()):
            return False
        try:
            from rich.console import Console
            from rich.live import Live
        except ImportError:
            self._rich = False
            return False
        if not _terminal.acquire(blocking=False):  # another execution shows itself already
            self._on = False
            return False
        # The program's output stands above the bars, but a file that it prints to stays a file.
        self._live = Live(
            console=Console(stderr=True),
            auto_refresh=False,
            transient=True,
            redirect_stdout=sys.stdout.isatty(),
        )
        self._live.start()
        return True

    def _bars(self, operators: Sequence[Physical], now: float) -> Bars:
        from heliostat.data.execute.progress_bars import Bars

        shown = [one for one in operators if one.name != "Input"]
        return Bars(self._head(now), shown, now - self._begun)

    def _head(self, now: float) -> str:
        elapsed = now - self._begun
        return (
            f"{self._label}: {self._rows:,} rows, {self._bytes / 1e6:,.1f} MB in {elapsed:.0f} s "
            f"({self._rows / elapsed:,.0f} rows/s)"
        )

    def _text(self, operators: Sequence[Physical], now: float) -> str:
        elapsed = now - self._begun
        parts = [
            _line(operator, elapsed)
            for operator in operators
            if operator.stats.tasks or operator.running()
        ]
        return "\n  ".join([self._head(now), *parts])

    def close(self, operators: Sequence[Physical]) -> None:
        """The execution is over."""
        if self._live is not None:
            with contextlib.suppress(Exception):
                self._live.stop()
            _terminal.release()
        if self._live is not None or self._lines:
            logger.info("%s", self._text(operators, time.monotonic()))


def _line(operator: Physical, elapsed: float) -> str:
    """An operator: its tasks, what came of them and how fast, what waits, and what bounds it."""
    stats = operator.stats
    total = getattr(operator, "expected_blocks", 0)
    of = f"/{total}" if total else ""
    said = [
        f"{operator.name} {stats.tasks - operator.running()}{of} tasks",
        f"{operator.running()} running",
        f"{stats.rows.total:,.0f} rows",
        f"{stats.bytes.total / 1e6:,.1f} MB",
        f"{stats.rows.total / max(elapsed, 1e-3):,.0f} rows/s",
    ]
    blocks, size = operator.backlog()
    if blocks:
        said.append(f"backlog {blocks} blocks of {size / 1e6:,.1f} MB")
    limit = bound(operator)
    if limit:
        said.append(f"bounded by {'' if limit == 'memory' else 'its '}{limit}")
    return ", ".join(said)
