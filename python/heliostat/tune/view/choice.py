"""The choice of how a search is seen while it runs."""

from __future__ import annotations

import contextlib
import datetime
import importlib.util
import os
import sys
import threading

from heliostat.tune.progress import Progress
from heliostat.tune.progress_reporter import JupyterNotebookReporter, Reported


def open_progress(
    verbose: int,
    metric: str | None,
    mode: str | None,
    total: int | None,
    budget: float | datetime.timedelta | None,
) -> Progress:
    """A live table where standard output is a terminal or a notebook, else lines.

    Args:
        verbose: 0: nothing is shown.
        metric, mode: What the best trial is best at.
        total: How many trials there will be; None: unknown.
        budget: After how long the search ends at the latest, in seconds where it is a number.
    """
    if isinstance(budget, datetime.timedelta):
        budget = budget.total_seconds()
    if verbose and sys.stdout is not None:
        if _is_notebook():
            return Reported(JupyterNotebookReporter(), metric, mode, total)
        is_main = threading.current_thread() is threading.main_thread()
        is_terminal = sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"
        if is_main and is_terminal and importlib.util.find_spec("rich") is not None:
            from heliostat.tune.view.live import LiveError, LiveTable

            with contextlib.suppress(LiveError):
                return LiveTable(verbose, metric, mode, total, budget)
    return Progress(verbose, metric, mode, total)


def _is_notebook() -> bool:
    """Whether the program is the kernel of a notebook, which shows tables."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return getattr(getattr(shell, "kernel", None), "session", None) is not None
