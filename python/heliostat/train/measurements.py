"""The measurements of training, under the names that Ray's dashboards ask for."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

from heliostat.util.metrics import Gauge

_RUN = ("ray_train_run_name", "ray_train_run_id")
_WORKER = (*_RUN, "ray_train_worker_world_rank", "ray_train_worker_actor_id")


class RunMeasurements:
    """The figures of a run, in its driver."""

    def __init__(self, name: str, run_id: str) -> None:
        self._own = dict(zip(_RUN, (name, run_id), strict=True))
        self._state = ""
        self._states = Gauge(
            "train_controller_state",
            "1 for the state in which the run is.",
            (*_RUN, "ray_train_controller_state"),
        )
        self._start = _Sum(
            "train_worker_group_start_total_time_s",
            "Seconds in which groups of workers started.",
            self._own,
        )
        self._stop = _Sum(
            "train_worker_group_shutdown_total_time_s",
            "Seconds in which groups of workers ended.",
            self._own,
        )

    def entered(self, state: str) -> None:
        """The run is in this state from now on."""
        for name, value in ((self._state, 0), (state, 1)):
            if name:
                self._states.set(value, {**self._own, "ray_train_controller_state": name})
        self._state = state

    def starting(self) -> contextlib.AbstractContextManager[None]:
        """A group of workers starts within it."""
        return self._start.within()

    def stopping(self) -> contextlib.AbstractContextManager[None]:
        """A group of workers ends within it."""
        return self._stop.within()


class WorkerMeasurements:
    """The figures of one worker of an attempt."""

    def __init__(self, name: str, run_id: str, rank: int, actor_id: str) -> None:
        own = dict(zip(_WORKER, (name, run_id, str(rank), actor_id), strict=True))
        self._report = _Sum(
            "train_report_total_blocked_time_s",
            "Seconds that the training function spent in report().",
            own,
        )
        self._transfer = _Sum(
            "train_checkpoint_transfer_total_time_s",
            "Seconds in which checkpoints were brought to the storage.",
            own,
        )

        self._sync = _Sum(
            "train_checkpoint_sync_total_time_s",
            "Seconds in which reports with checkpoints waited for those of the other workers.",
            own,
        )

    def syncing(self) -> contextlib.AbstractContextManager[None]:
        """Count the time within as a report's wait for those of the other workers."""
        return self._sync.within()

    def reporting(self) -> contextlib.AbstractContextManager[None]:
        """Count the time within as spent in ``report``."""
        return self._report.within()

    def transferring(self) -> contextlib.AbstractContextManager[None]:
        """Count the time within as spent on bringing a checkpoint to the storage."""
        return self._transfer.within()


class _Sum:
    """Seconds that come together."""

    def __init__(self, name: str, about: str, tags: dict[str, str]) -> None:
        self._gauge, self._tags = Gauge(name, about, tuple(tags)), tags
        self._seconds = 0.0
        self._gauge.set(0.0, tags)

    @contextlib.contextmanager
    def within(self) -> Iterator[None]:
        began = time.perf_counter()
        try:
            yield
        finally:
            self._seconds += time.perf_counter() - began
            self._gauge.set(self._seconds, self._tags)
