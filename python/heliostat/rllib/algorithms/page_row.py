"""The run of an algorithm as ``heliostat why`` and the page of training runs show it."""

from __future__ import annotations

import time
import uuid
from typing import Any

import heliostat
from heliostat.rllib.algorithms import metrics_names as names
from heliostat.train.controller.page_row import RunRow
from heliostat.train.controller.record import AttemptRecord, Failure, RunRecord
from heliostat.train.messages import ReportedRow
from heliostat.util import why

# LIMIT-1: calls of which the reason is asked, and modules whose losses are shown.
_WAITS, _MODULES = 5, 3
_OF_RUNNERS = ("episode_return_mean", "episode_len_mean", "num_episodes")
_OF_MODULES = ("total_loss", "policy_loss", "vf_loss", "qf_loss", "entropy", "mean_kl_loss")


class AlgorithmRow:
    """Tells of one algorithm: what comes out of it, what fails, and what it waits for.

    Args:
        name: What users call it in ``heliostat why``.
        config: Its settings.
        path: Its folder.
    """

    def __init__(self, name: str, config: Any, path: str) -> None:
        workers = max(1, config.num_env_runners + config.num_learners)
        now = time.time()
        self._record = RunRecord(name, uuid.uuid4().hex[:12], path, {}, state="starting")
        self._record.attempts.append(AttemptRecord(0, now, workers, started_at=now))
        self._told = RunRow(self._record)
        self._told.begin()
        self._last = (now, 0)

    def result(self, result: dict[str, Any]) -> None:
        """An iteration is over.

        Args:
            result: What ``train()`` returns.
        """
        now, record = time.time(), self._record
        began, before = self._last
        steps = int(result.get("num_env_steps_sampled_lifetime", 0))
        self._last = (now, steps)
        of_runners = result.get(names.ENV_RUNNERS, {})
        metrics = {key: of_runners[key] for key in _OF_RUNNERS if key in of_runners}
        metrics["env_steps"] = steps
        metrics["env_steps_per_s"] = (steps - before) / max(now - began, 1e-9)
        learned = result.get(names.LEARNERS, {})
        for module_id in [m for m in learned if m != "__all_modules__"][:_MODULES]:
            own = {key: learned[module_id][key] for key in _OF_MODULES if key in learned[module_id]}
            metrics |= {f"{module_id}/{key}": value for key, value in own.items()}
        faults = result.get("fault_tolerance", {})
        metrics["healthy_runners"] = faults.get("num_healthy_workers", 0)
        metrics["runner_restarts"] = faults.get("num_remote_worker_restarts", 0)
        record.state, record.waits = "running", []
        record.add_report(ReportedRow(record.report_count, now, metrics))
        self._told.refresh()

    def failed(self, who: str, error: BaseException) -> None:
        """A runner or a learner has failed.

        Args:
            who: Which one.
            error: Why.
        """
        text = (str(error).strip() or repr(error)).splitlines()[-1]
        self._record.failures.append(Failure(time.time(), 0, [0], f"{who}: {text}", ""))
        self._told.refresh()

    def waits(self, calls: dict[str, Any]) -> None:
        """Calls are waited for: what each waits for itself.

        Args:
            calls: References by who answers them; empty when it is over.
        """
        asked = list(calls.items())[:_WAITS]
        lines = [f"{who}: {why(ref, timeout=1.0)}" for who, ref in asked]
        if len(calls) > len(asked):
            lines.append(f"{len(calls) - len(asked)} more.")
        self._record.waits = lines
        self._told.refresh()

    def end(self, failed: bool) -> None:
        """Say that the training is over.

        Args:
            failed: Whether an error has ended it.
        """
        record = self._record
        record.finished_at, record.state = time.time(), "failed" if failed else "finished"
        record.waits = []
        if heliostat.is_initialized():
            self._told.end()
