"""The keys that are added to each result: counts, times, and where the trial runs."""

from __future__ import annotations

import datetime
import os
import socket
import time
from collections.abc import Mapping

from heliostat.tune.aliases import Report
from heliostat.tune.result import (
    EPISODES_THIS_ITER,
    EPISODES_TOTAL,
    TIMESTEPS_THIS_ITER,
    TIMESTEPS_TOTAL,
)


class Timing:
    """Counts a trial's results and the time that they took."""

    def __init__(
        self, iteration: int = 0, total_s: float = 0.0, counts: Mapping[str, float] | None = None
    ) -> None:
        self.iteration, self.total_s = iteration, total_s
        self.counts = dict(counts or {})  # by the names of the totals
        self._counted_at = self.counts.get(TIMESTEPS_TOTAL, 0)
        self._since_restore, self._restored_at = 0.0, iteration
        self._stamp, self._date = 0, ""
        self._pid = os.getpid()
        self._node_ip = os.environ.get("HELIOSTAT_NODE_HOST", "127.0.0.1")
        self._last = time.perf_counter()

    def fill(self, metrics: Report, trial_id: str) -> Report:
        """The metrics of one more result, completed. Names that are there already stay."""
        now = time.perf_counter()
        took, self._last = now - self._last, now
        self.iteration += 1
        self.total_s += took
        self._since_restore += took
        stamp = int(time.time())
        if stamp != self._stamp:
            self._stamp = stamp
            date = datetime.datetime.fromtimestamp(stamp)
            self._date = date.strftime("%Y-%m-%d_%H-%M-%S")
        added = {
            "timestamp": stamp,
            "checkpoint_dir_name": None,
            "done": False,
            "training_iteration": self.iteration,
            "trial_id": trial_id,
            "date": self._date,
            "time_this_iter_s": took,
            "time_total_s": self.total_s,
            "pid": self._pid,
            "hostname": HOSTNAME,
            "node_ip": self._node_ip,
            "time_since_restore": self._since_restore,
            "iterations_since_restore": self.iteration - self._restored_at,
        }
        metrics.update({**added, **metrics})  # the metrics stay first
        for name, total in COUNTED.items():
            if isinstance(metrics.get(name), int | float):
                self.counts[total] = self.counts.get(total, 0) + metrics[name]
        for total, count in self.counts.items():
            metrics.setdefault(total, count)
        if TIMESTEPS_TOTAL in self.counts:
            since = self.counts[TIMESTEPS_TOTAL] - self._counted_at
            metrics.setdefault("timesteps_since_restore", since)
        return metrics


def counts_of(metrics: Report) -> dict[str, float]:
    """The counts up to a result, by the names of the totals."""
    found = {total: metrics.get(total) for total in COUNTED.values()}
    return {total: count for total, count in found.items() if isinstance(count, int | float)}


# Values that trainables report of a step, and the names of their sums in results.
COUNTED = {TIMESTEPS_THIS_ITER: TIMESTEPS_TOTAL, EPISODES_THIS_ITER: EPISODES_TOTAL}

HOSTNAME = socket.gethostname()
