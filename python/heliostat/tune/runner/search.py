"""A search as a state machine: what happened goes in, what is to be done comes out.

There are no files, processes or clocks here. It calls the scheduler, the searcher and the stopper, which
are the user's: what they raise ends the search.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from heliostat.tune.aliases import Report
from heliostat.tune.error import TuneError
from heliostat.tune.execution.placement_groups import PlacementGroupFactory
from heliostat.tune.runner.trial import ERROR, PAUSED, PENDING, RUNNING, TERMINATED, Trial
from heliostat.tune.schedulers.trial_scheduler import TrialScheduler
from heliostat.tune.search.searcher import Searcher
from heliostat.tune.stopper import Stopper

# Answers to a running trial after a result.
CONTINUE, STOP, PAUSE = "CONTINUE", "STOP", "PAUSE"


class Source(Protocol):
    """The source of new trials."""

    total: int | None  # how many there will be; None: unknown

    def next(self) -> Trial | None:
        """A new trial; None when there is none now."""

    @property
    def is_finished(self) -> bool:
        """Whether there will be no more."""

    def on_result(self, trial: Trial, result: Report) -> None:
        """A trial has reported."""

    def on_complete(self, trial: Trial, failed: bool) -> None:
        """A trial has ended."""


@dataclass
class Limits:
    """The limits of trials and searches."""

    max_failures: int = 0  # of a trial; -1: without end
    fail_fast: bool = False
    restore_retries: int = 0  # of a trial, beyond max_failures
    metrics: tuple[str, ...] = ()
    check_metric: bool = True  # that the metrics are in each result


@dataclass
class Search:
    """All trials, and what becomes of each."""

    source: Source
    scheduler: TrialScheduler
    stopper: Stopper
    limits: Limits
    trials: list[Trial] = field(default_factory=list)
    on_added: Callable[[Trial], None] = lambda trial: None
    on_ended: Callable[[Trial], None] = lambda trial: None  # by stop_trial
    resources_of: Callable[[Trial], PlacementGroupFactory | None] = lambda trial: None
    total_resources: Callable[[], Mapping[str, float]] = dict  # of the cluster
    reuses_actors: bool = False
    is_stopping: bool = False
    saves_on_request: bool = False
    _saving: set[str] = field(default_factory=set)
    _pausing: set[str] = field(default_factory=set)  # told to pause, and still there
    _doomed: set[str] = field(default_factory=set)  # those of them that end then
    _live: dict[str, Trial] = field(default_factory=dict)  # those that have not ended

    def __post_init__(self) -> None:
        self._live = {trial.trial_id: trial for trial in self.trials if not trial.is_finished()}

    # --- what schedulers may ask ---

    def get_trials(self) -> list[Trial]:
        """All trials, finished ones included."""
        return self.trials

    def get_live_trials(self) -> list[Trial]:
        """The trials that have not ended."""
        return list(self._live.values())

    @property
    def live_count(self) -> int:
        """The number of trials that have not ended."""
        return len(self._live)

    @property
    def has_more(self) -> bool:
        """Whether there will be more trials than those that are here."""
        return not self.source.is_finished

    @property
    def has_searcher(self) -> bool:
        """Whether a searcher learns from the results."""
        return bool(getattr(self.source, "has_searcher", False))

    @property
    def searcher(self) -> Searcher | None:
        """The searcher that learns from the results; None without one."""
        return getattr(self.source, "searcher", None)

    def stop_trial(self, trial: Trial) -> None:
        """End a trial that waits or is about to pause."""
        if trial.is_finished():
            return
        if trial.status == RUNNING:
            if trial.trial_id not in self._pausing:
                raise TuneError(f"{trial} runs: return STOP from on_trial_result to end it.")
            self._doomed.add(trial.trial_id)
            return
        trial.stopped_by = f"{type(self.scheduler).__name__} ended it while it did not run."
        self.completed(trial)
        self.on_ended(trial)

    def save(self, trial: Trial) -> None:
        """Have a running class trainable save; functions have reported what they have."""
        if self.saves_on_request and trial.status == RUNNING:
            self._saving.add(trial.trial_id)

    def is_saving(self, trial: Trial) -> bool:
        """Whether a checkpoint of the trial is on its way."""
        return trial.trial_id in self._saving

    # --- what is to run next ---

    def choose(self) -> Trial | None:
        """The trial that is to run in a free place; None when there is none now."""
        if self.is_stopping:
            return None
        waiting = self.scheduler.choose_trial_to_run(self)
        if waiting is not None and (waiting.status == PENDING or self.scheduler.resumes_first):
            return waiting
        new = self.source.next()
        if new is None and waiting is None and self._is_stalled():
            self.scheduler.on_stall(self)
            return self.scheduler.choose_trial_to_run(self)
        if new is None:
            return waiting
        self.add(new)
        return new

    def add(self, trial: Trial) -> None:
        """Take in a new trial."""
        wanted = self.resources_of(trial)
        if wanted is not None:
            trial.placement_group_factory = wanted
        self.trials.append(trial)
        self._live[trial.trial_id] = trial
        self.scheduler.on_trial_add(self, trial)  # it may complete the configuration
        self.on_added(trial)

    def _is_stalled(self) -> bool:
        """Whether all trials are paused."""
        return bool(self._live) and all(one.status == PAUSED for one in self._live.values())

    @property
    def is_over(self) -> bool:
        """Whether nothing runs or will run."""
        if any(trial.status == RUNNING for trial in self._live.values()):
            return False
        return self.is_stopping or (self.source.is_finished and not self._live)

    # --- what happened ---

    def started(self, trial: Trial) -> None:
        """The trial runs."""
        trial.status, trial.stopped_by = RUNNING, ""

    def reported(self, trial: Trial, result: Report) -> str:
        """Decide about the trial after a result."""
        trial.last_result = result
        self._check(result)
        if result.get("done"):
            return STOP
        if self.stopper(trial.trial_id, result):
            result["done"] = True
            decision = STOP
            self._stopped(trial, self.stopper, result)
        else:
            decision = self.scheduler.on_trial_result(self, trial, result)
            if decision == STOP:
                result["done"] = True
                self._stopped(trial, self.scheduler, result)
        if decision == PAUSE:
            self._pausing.add(trial.trial_id)
            self.save(trial)
        if decision != STOP:
            self.source.on_result(trial, result)
        if self.stopper.stop_all():
            self.is_stopping = True
        return decision

    def _stopped(self, trial: Trial, by: object, result: Report) -> None:
        iteration = result.get("training_iteration")
        trial.stopped_by = f"{type(by).__name__} stopped it at iteration {iteration}."

    def _check(self, result: Report) -> None:
        for metric in self.limits.metrics:
            if metric not in result and not _has(result, metric):
                break
        else:
            return
        if not self.limits.check_metric:
            return
        own = sorted(name for name in result if name not in ADDED)
        raise TuneError(
            f"Trial returned a result which did not include the metric {metric!r}. It reported: "
            f"{', '.join(own) or 'nothing'}. Report it with tune.report({{{metric!r}: ...}}), or set "
            "TUNE_DISABLE_STRICT_METRIC_CHECKING=1 to go on without it."
        )

    def saved(self, trial: Trial) -> None:
        """The trial has a new checkpoint."""
        self._saving.discard(trial.trial_id)
        self.scheduler.on_trial_saved(self, trial)

    def completed(self, trial: Trial) -> None:
        """The trial ended well, by itself or because it was told to."""
        trial.status = TERMINATED
        self._live.pop(trial.trial_id, None)
        self._forget(trial)
        trial.last_result["done"] = True
        self.scheduler.on_trial_complete(self, trial, trial.last_result)
        self.source.on_complete(trial, failed=False)

    def paused(self, trial: Trial) -> None:
        """The trial gave up its place, to go on later from its checkpoint."""
        trial.status = PAUSED
        self._pausing.discard(trial.trial_id)
        if self.is_saving(trial):  # there was nothing to save
            self.saved(trial)
        if trial.trial_id in self._doomed:
            self.stop_trial(trial)

    def postponed(self, trial: Trial) -> None:
        """The trial could not begin, for no fault of its own."""
        trial.status = PENDING
        self._forget(trial)

    def _forget(self, trial: Trial) -> None:
        for kept in (self._saving, self._pausing, self._doomed):
            kept.discard(trial.trial_id)

    def failed(
        self, trial: Trial, error: BaseException, text: str, restoring: bool = False
    ) -> bool:
        """The trial failed, maybe when it was to load its checkpoint; whether it is tried again."""
        if restoring and trial.num_restore_failures < self.limits.restore_retries:
            trial.num_restore_failures += 1
        else:
            trial.num_failures += 1
        trial.error, trial.error_text = error, text
        if self.is_saving(trial):  # those who wait for it take what there is
            self.saved(trial)
        most = self.limits.max_failures
        if (
            not self.is_stopping
            and trial.trial_id not in self._doomed
            and not self.limits.fail_fast
            and (most < 0 or trial.num_failures <= most)
        ):
            trial.status = PENDING
            self._forget(trial)
            return True
        trial.status = ERROR
        self._forget(trial)
        self._live.pop(trial.trial_id, None)
        self.scheduler.on_trial_error(self, trial)
        self.source.on_complete(trial, failed=True)
        if self.limits.fail_fast:
            self.is_stopping = True
        return False

    def interrupted(self, trial: Trial) -> None:
        """The search ends before the trial: it counts as ended with what it has."""
        trial.stopped_by = "The search ended before it."
        trial.status = TERMINATED
        self._live.pop(trial.trial_id, None)
        self._forget(trial)
        self.source.on_complete(trial, failed=False)


# Values that are added to each report.
ADDED = frozenset(
    (
        "checkpoint_dir_name",
        "config",
        "date",
        "done",
        "experiment_tag",
        "hostname",
        "iterations_since_restore",
        "node_ip",
        "pid",
        "time_since_restore",
        "time_this_iter_s",
        "time_total_s",
        "timestamp",
        "training_iteration",
        "trial_id",
    )
)


def _has(result: Report, metric: str) -> bool:
    value: object = result
    if metric in result:
        return True
    for key in metric.split("/"):
        if not isinstance(value, dict) or key not in value:
            return False
        value = value[key]
    return True
