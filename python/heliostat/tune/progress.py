"""The progress of a search on a terminal: the number of trials in each state, and the best so far."""

from __future__ import annotations

import sys
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

from heliostat.tune.runner.trial import Trial, rank

if TYPE_CHECKING:
    from heliostat.tune.runner.search import Search

EVERY_S = 5.0
PAGE = "search.html"


class Progress:
    """Prints a line from time to time, and a table at the end; nothing with verbose=0."""

    def __init__(
        self, verbose: int, metric: str | None, mode: str | None, total: int | None
    ) -> None:
        self._verbose, self._metric, self._mode, self._total = verbose, metric, mode, total
        self._began = time.monotonic()
        self._shown_at = self._began

    def show(self, search: Search) -> None:
        """Print a line if it is time for one."""
        now = time.monotonic()
        if self._verbose and now - self._shown_at >= EVERY_S:
            self._shown_at = now
            _print(self.line(search.get_trials()))

    def close(self) -> None:
        """Give the terminal back, also where the search failed; may be called again."""

    def end(self, trials: list[Trial], folder: str) -> None:
        """Print the outcome."""
        if not self._verbose:
            return
        _print(self.line(trials))
        for trial in trials:
            if trial.status == "ERROR":
                why = trial.error_line()
                _print(f"  {trial} failed: {why} (all of it: {folder}/{trial.folder}/error.txt)")
        _print(f"Results are in {folder}, which {PAGE} shows")

    def line(self, trials: list[Trial]) -> str:
        """The state of the search in a line."""
        counts = Counter(trial.status for trial in trials)
        states = ", ".join(f"{counts[state]} {state}" for state in STATES if counts[state])
        of = f" of {self._total}" if self._total is not None else ""
        text = f"Trials: {len(trials)}{of} ({states}), {time.monotonic() - self._began:.0f} s"
        best = best_trial(trials, self._metric, self._mode)
        if best is not None and self._metric is not None:
            value = rank(best, self._metric, best.last_result)
            text += f", best {self._metric}={value:.6g} with {_params(best)}"
        return text


STATES = ("RUNNING", "PENDING", "PAUSED", "TERMINATED", "ERROR")


def best_trial(trials: list[Trial], metric: str | None, mode: str | None) -> Trial | None:
    """The trial with the best last result; None where there is none."""
    if metric is None or mode is None:
        return None
    ranked = [(rank(trial, metric, trial.last_result), trial) for trial in trials]
    known = [pair for pair in ranked if pair[0] == pair[0]]
    if not known:
        return None
    choose: Any = max if mode == "max" else min
    found: tuple[float, Trial] = choose(known, key=lambda pair: pair[0])
    return found[1]


def _params(trial: Trial) -> str:
    parts = []
    for name, value in trial.evaluated_params.items():
        text = f"{value:.4g}" if isinstance(value, float) else str(value)
        parts.append(f"{name}={text[:20]}")
    return ", ".join(parts[:8]) or str(trial)


def _print(text: str) -> None:
    print(text, file=sys.stdout, flush=True)  # noqa: T201 # a progress report is for the terminal
