"""Settings of a search: its run, and the place of its files."""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

from heliostat.train.arguments import DEPRECATED, check_folder_name, whole
from heliostat.train.config import CheckpointConfig as TrainCheckpointConfig
from heliostat.train.config import FailureConfig as TrainFailureConfig
from heliostat.train.config.run import SyncConfig
from heliostat.train.storage.base import Storage
from heliostat.train.storage.filesystems import is_local
from heliostat.train.storage.opening import open_storage
from heliostat.tune.trainable.output import log_files

if TYPE_CHECKING:
    from heliostat.tune.runner.trial import Trial

__all__ = [
    "CheckpointConfig",
    "FailureConfig",
    "ResumeConfig",
    "RunConfig",
    "SyncConfig",
    "TuneConfig",
]


@dataclass
class FailureConfig:
    """The reaction to the failure of a trial.

    Attributes:
        max_failures: How many times a trial is tried again, from its last checkpoint; -1: without
            end. Default 0.
        fail_fast: True: the first failure ends the search. "raise": ``fit()`` raises it.

    Examples:
        >>> import pathlib, tempfile
        >>> from ray import tune
        >>> tried = tempfile.mkdtemp()
        >>> def objective(config):
        ...     if not list(pathlib.Path(tried).iterdir()):
        ...         pathlib.Path(tried, "once").touch()
        ...         raise OSError("the first try fails")
        ...     tune.report({"loss": 1})
        >>> config = tune.RunConfig(verbose=0, failure_config=tune.FailureConfig(max_failures=1))
        >>> tune.Tuner(objective, run_config=config).fit()[0].metrics["loss"]
        1
    """

    max_failures: int = 0
    fail_fast: bool | str = False

    def __post_init__(self) -> None:
        check_fail_fast(self.fail_fast, self.max_failures)


def check_fail_fast(fail_fast: bool | str, max_failures: int) -> None:
    """Raise ``ValueError`` for a ``fail_fast`` that is none, or that contradicts the number of failures."""
    if not (isinstance(fail_fast, bool) or fail_fast == "raise"):
        raise ValueError(f"fail_fast={fail_fast!r} must be True, False or 'raise'.")
    if fail_fast and max_failures != 0:
        raise ValueError(
            f"max_failures must be 0 if fail_fast={fail_fast!r}: the first failure ends the search."
        )


@dataclass
class CheckpointConfig:
    """The choice of the checkpoints that are made and kept.

    Attributes:
        num_to_keep: How many of a trial; None (default): all.
        checkpoint_score_attribute: The metric that ranks them. Default: the latest are best.
        checkpoint_score_order: "max" (default) or "min".
        checkpoint_frequency: A class trainable is saved after so many steps; 0: not.
        checkpoint_at_end: A class trainable is saved at its end.

    Examples:
        >>> import pathlib
        >>> from ray import tune
        >>> class Counting(tune.Trainable):
        ...     def setup(self, config):
        ...         self.count = 0
        ...     def step(self):
        ...         self.count += 1
        ...         return {"count": self.count}
        ...     def save_checkpoint(self, folder):
        ...         _ = pathlib.Path(folder, "count.txt").write_text(str(self.count))
        ...     def load_checkpoint(self, folder):
        ...         self.count = int(pathlib.Path(folder, "count.txt").read_text())
        >>> config = tune.RunConfig(
        ...     verbose=0,
        ...     stop={"count": 4},
        ...     checkpoint_config=tune.CheckpointConfig(num_to_keep=1, checkpoint_frequency=2),
        ... )
        >>> result = tune.Tuner(Counting, run_config=config).fit()[0]
        >>> with result.checkpoint.as_directory() as folder:
        ...     pathlib.Path(folder, "count.txt").read_text()
        '4'
    """

    num_to_keep: int | None = None
    checkpoint_score_attribute: str | None = None
    checkpoint_score_order: str | None = "max"
    checkpoint_frequency: int | None = 0
    checkpoint_at_end: bool | None = None

    def __post_init__(self) -> None:
        if self.num_to_keep is not None and (whole(self.num_to_keep) or 0) < 1:
            raise ValueError(
                f"num_to_keep={self.num_to_keep!r} must be a whole number from 1 up, or None to keep "
                "every checkpoint."
            )
        if self.checkpoint_score_order not in ("max", "min"):
            raise ValueError(
                f"checkpoint_score_order={self.checkpoint_score_order!r} must be 'max' or 'min'."
            )
        if (self.checkpoint_frequency or 0) < 0:
            raise ValueError("checkpoint_frequency must be 0 or more.")


def of_search(given: object) -> Any:
    """Return the search's configuration that one of a training run means; others are returned as
    they are.
    """
    if isinstance(given, TrainFailureConfig):
        return FailureConfig(given.max_failures, said(given.fail_fast, False))
    if isinstance(given, TrainCheckpointConfig):
        return CheckpointConfig(
            given.num_to_keep,
            given.checkpoint_score_attribute,
            given.checkpoint_score_order,
            said(given.checkpoint_frequency, 0),
            said(given.checkpoint_at_end),
        )
    return given


def said(value: object, default: object = None) -> Any:
    """The value of an option that trainers refuse; the default where it was not given."""
    return default if isinstance(value, str) and value == DEPRECATED else value


@dataclass
class RunConfig:
    """The settings of a search's run: storage, the end of trials, failures.

    Attributes:
        name: Of the search and its folder. Default: the trainable's name and the time.
        storage_path: Folder that holds searches, or a URI such as ``s3://bucket/dir``. Default
            ``~/ray_results``.
        storage_filesystem: A ``pyarrow.fs`` or fsspec filesystem that ``storage_path`` is a path on.
        failure_config, checkpoint_config: See there.
        sync_config: Kept, without an effect: files are written where they belong.
        verbose: 0: nothing is printed; 1 and more: the state of the search.
        stop: A dict of bounds such as ``{"training_iteration": 10}``, a ``Stopper``, or a function of
            trial id and result.
        callbacks: Objects with ``on_trial_result`` and the like; see ``tune.Callback``.
        progress_reporter: A ``CLIReporter``, or another ``ProgressReporter``, that is called instead of the
            lines that a search prints; not with ``verbose=0``.
        log_to_file: What a trial prints goes into files of its folder, too: True: "stdout" and "stderr";
            a name: one file; two names: one for each.
        local_dir: Refused (DeprecationWarning): pass ``storage_path``.

    Examples:
        >>> from ray import tune
        >>> def objective(config):
        ...     for step in range(100):
        ...         tune.report({"score": step})
        >>> config = tune.RunConfig(name="bounded", verbose=0, stop={"training_iteration": 3})
        >>> results = tune.Tuner(objective, run_config=config).fit()
        >>> results[0].metrics["score"]
        2
    """

    name: str | None = None
    storage_path: str | None = None
    storage_filesystem: Any | None = None
    failure_config: FailureConfig | None = None
    checkpoint_config: CheckpointConfig | None = None
    sync_config: SyncConfig | None = None
    verbose: int | Any | None = None
    stop: Any = None
    callbacks: list[Any] | None = None
    progress_reporter: Any | None = None
    log_to_file: bool | str | tuple[str, str] = False
    local_dir: str | None = None

    def __post_init__(self) -> None:
        if self.name is not None:
            check_folder_name("RunConfig(name)", self.name)
        reporter = self.progress_reporter
        if reporter is not None and not callable(getattr(reporter, "report", None)):
            raise ValueError(
                f"progress_reporter={reporter!r} must be a tune.CLIReporter or another ProgressReporter."
            )
        log_files(self.log_to_file)
        if self.local_dir is not None:
            raise DeprecationWarning("`RunConfig(local_dir)` is gone: pass `storage_path`.")
        if self.storage_path is not None:
            self.storage_path = os.fspath(self.storage_path)
        self.failure_config = of_search(self.failure_config) or FailureConfig()
        self.checkpoint_config = of_search(self.checkpoint_config) or CheckpointConfig()
        self.sync_config = self.sync_config or SyncConfig()

    @property
    def folder(self) -> str:
        """The folder of searches: an absolute path, or as it was given where that is not on a disk."""
        path = (self.storage_path or "~/ray_results").removeprefix("file://")
        if "://" in path or not is_local(self.storage_filesystem):
            return path.rstrip("/")
        return os.path.abspath(os.path.expanduser(path))

    def storage(self, name: str) -> Storage:
        """Return where the search of that name keeps its files.

        Args:
            name: The search's name.

        Raises:
            ValueError: ``storage_path`` is a URI that nobody knows.
            ImportError: It needs pyarrow.
        """
        return open_storage(self.storage_path, name, self.storage_filesystem)


@dataclass
class TuneConfig:
    """The goal of a search, and the way to it.

    Attributes:
        mode: "min" or "max".
        metric: The name of what is optimized.
        search_alg: What suggests configurations. Default: grids and random values.
        scheduler: What stops bad trials early. Default: nothing does.
        num_samples: How many times the space is sampled (each grid whole); -1: without end.
        max_concurrent_trials: How many trials run at a time. Default, and below 1: as many as fit.
        time_budget_s: Seconds, or a ``timedelta``, after which the search ends.
        reuse_actors: A process runs one trial after the other: functions always, class trainables if
            their ``reset_config`` returns True. False: each trial has a new process, so that variables
            of the environment, globals, threads and memory of a GPU end with it.
        trial_name_creator, trial_dirname_creator: Functions of a trial that return its name, and
            its folder's.
        chdir_to_trial_dir: Refused (DeprecationWarning): set RAY_CHDIR_TO_TRIAL_DIR.

    Examples:
        >>> import ray
        >>> from ray import tune
        >>> from ray.tune.schedulers import ASHAScheduler
        >>> config = tune.TuneConfig(
        ...     metric="loss", mode="min", num_samples=20, scheduler=ASHAScheduler(max_t=50)
        ... )
    """

    mode: str | None = None
    metric: str | None = None
    search_alg: Any | None = None
    scheduler: Any | None = None
    num_samples: int = 1
    max_concurrent_trials: int | None = None
    time_budget_s: int | float | datetime.timedelta | None = None
    reuse_actors: bool = False
    trial_name_creator: Callable[[Trial], str] | None = None
    trial_dirname_creator: Callable[[Trial], str] | None = None
    chdir_to_trial_dir: bool | str = "DEPRECATED"

    def __post_init__(self) -> None:
        if self.mode not in ("min", "max", None):
            raise ValueError(f"mode={self.mode!r} must be 'min' or 'max'.")
        if whole(self.num_samples) is None and self.num_samples != float("inf"):
            raise ValueError(
                f"num_samples={self.num_samples!r} must be a whole number, or -1 for no end."
            )
        if self.chdir_to_trial_dir != "DEPRECATED":
            raise DeprecationWarning(
                "`chdir_to_trial_dir` is gone: set the environment variable RAY_CHDIR_TO_TRIAL_DIR."
            )


class ResumeType(str, Enum):
    """The ways in which a restored search treats a trial."""

    SKIP = "skip"
    RESTART = "restart"
    RESUME = "resume"


@dataclass
class ResumeConfig:
    """The way in which a restored search treats its trials, by how they ended.

    Attributes:
        finished: Of those that ended well: ``"SKIP"`` (the default): they stay as they are;
            ``"RESUME"``: they go on; ``"RESTART"``: they begin anew.
        unfinished: Of those that had not ended. Default ``"RESUME"``.
        errored: Of those that failed. Default ``"SKIP"``.

    Examples:
        >>> from ray import tune
        >>> def objective(config):
        ...     tune.report({"loss": config["x"]})
        >>> tuner = tune.Tuner(
        ...     objective,
        ...     param_space={"x": tune.grid_search([1, 2])},
        ...     run_config=tune.RunConfig(name="again", verbose=0),
        ... )
        >>> path = tuner.fit().experiment_path
        >>> again = tune.ResumeConfig(finished=tune.ResumeConfig.ResumeType.RESTART)
        >>> analysis = tune.run(
        ...     objective, name="again", resume=True, resume_config=again, verbose=0
        ... )
        >>> sorted(trial.last_result["loss"] for trial in analysis.trials)
        [1, 2]
    """

    finished: str = field(default=ResumeType.SKIP)
    unfinished: str = field(default=ResumeType.RESUME)
    errored: str = field(default=ResumeType.SKIP)

    ResumeType = ResumeType
