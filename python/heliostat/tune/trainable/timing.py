"""What is added to each result: counts, times, and where the trial runs."""

from __future__ import annotations

import datetime
import os
import socket
import time
from typing import Any


class Timing:
    """Counts a trial's results and the time that they took."""

    def __init__(self, iteration: int = 0, total_s: float = 0.0) -> None:
        self.iteration, self.total_s = iteration, total_s
        self._since_restore, self._restored_at = 0.0, iteration
        self._last = time.perf_counter()

    def fill(self, metrics: dict[str, Any], trial_id: str) -> dict[str, Any]:
        """The metrics of one more result, completed. Names that are there already stay."""
        now = time.perf_counter()
        took, self._last = now - self._last, now
        self.iteration += 1
        self.total_s += took
        self._since_restore += took
        stamp = datetime.datetime.now()
        added = {
            "timestamp": int(stamp.timestamp()),
            "checkpoint_dir_name": None,
            "done": False,
            "training_iteration": self.iteration,
            "trial_id": trial_id,
            "date": stamp.strftime("%Y-%m-%d_%H-%M-%S"),
            "time_this_iter_s": took,
            "time_total_s": self.total_s,
            "pid": os.getpid(),
            "hostname": HOSTNAME,
            "node_ip": os.environ.get("HELIOSTAT_NODE_HOST", "127.0.0.1"),
            "time_since_restore": self._since_restore,
            "iterations_since_restore": self.iteration - self._restored_at,
        }
        for name, value in added.items():
            metrics.setdefault(name, value)
        return metrics


HOSTNAME = socket.gethostname()
