"""A trial: one configuration, and what came of it. Plain state without files or calls."""

from __future__ import annotations

import datetime
import math
import os
import uuid
from collections.abc import Callable, Mapping
from dataclasses import InitVar, dataclass, field
from numbers import Number
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, NoReturn

from heliostat.core.platform import settings
from heliostat.core.platform.user_errors import user_error
from heliostat.train.checkpoint import Checkpoint
from heliostat.tune.aliases import Config, Report
from heliostat.tune.execution.placement_groups import PlacementGroupFactory, as_resources
from heliostat.tune.runner.results_file import read_results
from heliostat.tune.trainable.spec import checkpoint_at

if TYPE_CHECKING:
    from heliostat.train.storage.arrow import ArrowStorage
    from heliostat.tune.config import CheckpointConfig

PENDING, RUNNING, PAUSED = "PENDING", "RUNNING", "PAUSED"
TERMINATED, ERROR = "TERMINATED", "ERROR"
_MAX_ERROR_LINE = 400


def _new_id() -> str:
    return uuid.uuid4().hex[:8]


class Handed(NamedTuple):
    """A checkpoint of another trial, and how far that one had come."""

    checkpoint_path: str
    iteration: int
    total_s: float
    counts: dict[str, float]


@dataclass(eq=False, kw_only=True)
class Trial:
    """A trial: a configuration and its state. Schedulers and callbacks are given these.

    Attributes:
        trainable_name: Of what runs.
        config: What the trainable is given.
        trial_id: Short and unique in the cluster.
        evaluated_params: What was chosen for this trial, by its path such as ``optimizer/lr``.
        experiment_tag: The same as a short text.
        status: PENDING, RUNNING, PAUSED, TERMINATED or ERROR.
        last_result: The last report, with what is added to it.
        local_experiment_path: The folder of the search.
        num_failures: How many times it failed.
        placement_group_factory: What it takes of the cluster.
        stopping_criterion: Bounds of metrics, for ``should_stop``; a search has its own stopper.
        checkpoint_config, max_failures, export_formats, restore_path, log_to_file: What was asked for a trial
            of no search; a search has its own.
        trial_name_creator, trial_dirname_creator: Functions of a trial that return its name, and its
            folder's.

    Raises:
        ValueError: ``trial_dirname_creator`` returned a name with a "/".
    """

    PENDING: ClassVar[str] = PENDING
    RUNNING: ClassVar[str] = RUNNING
    PAUSED: ClassVar[str] = PAUSED
    TERMINATED: ClassVar[str] = TERMINATED
    ERROR: ClassVar[str] = ERROR

    trainable_name: str = field(kw_only=False)
    config: Config = field(default_factory=dict)
    trial_id: str = field(default_factory=_new_id)
    evaluated_params: Config = field(default_factory=dict)
    experiment_tag: str = ""
    status: str = PENDING
    last_result: Report = field(default_factory=dict)
    checkpoint_path: str | None = None  # of the latest one
    checkpoints: list[tuple[str, Report]] = field(default_factory=list)
    checkpoint_count: int = 0  # how many were made, removed ones included
    restore_iteration: int = 0  # how many results had come when the latest was made
    num_failures: int = 0
    num_restore_failures: int = 0  # those that do not count
    restore_total_s: float = 0.0  # how long it had run then
    restore_counts: dict[str, float] = field(default_factory=dict)  # what it had counted then
    handed: Handed | None = None  # what it goes on from instead, of another trial
    is_changed: bool = False  # whether its configuration is another than the files have
    error: BaseException | None = None
    error_text: str = ""
    stopped_by: str = ""  # a sentence, where it did not end by itself
    folder: str = ""  # below the experiment's
    custom_name: str = ""
    local_experiment_path: str = ""
    placement_group_factory: PlacementGroupFactory = field(
        default_factory=lambda: PlacementGroupFactory([{"CPU": 1}])
    )
    stopping_criterion: dict[str, float] = field(default_factory=dict)
    storage: ArrowStorage | None = None  # of its checkpoints, where that is not a disk
    checkpoint_config: CheckpointConfig | None = None
    max_failures: int = 0
    export_formats: list[str] | None = None
    restore_path: str | None = None
    log_to_file: bool | str | tuple[str | None, str | None] = (None, None)
    custom_dirname: str | None = None
    trial_name_creator: InitVar[Callable[[Trial], str] | None] = None
    trial_dirname_creator: InitVar[Callable[[Trial], str] | None] = None
    stub: InitVar[bool] = True  # Ray's: that the trainable need not be registered
    _told: list[Report] = field(default_factory=list)  # results of no search

    def __post_init__(
        self,
        trial_name_creator: Callable[[Trial], str] | None,
        trial_dirname_creator: Callable[[Trial], str] | None,
        stub: bool,
    ) -> None:
        if trial_name_creator is not None:
            self.custom_name = str(trial_name_creator(self))
        if trial_dirname_creator is not None:
            self.custom_dirname = str(trial_dirname_creator(self))
            if "/" in self.custom_dirname:
                raise ValueError(
                    f"trial_dirname_creator returned {self.custom_dirname!r}: the name of a folder has "
                    "no '/'."
                )

    def __str__(self) -> str:
        if self.custom_name:
            return self.custom_name
        parts = [self.trainable_name, self.trial_id]
        if "env" in self.config:  # trainables of reinforcement learning are told apart by it
            env = self.config["env"]
            parts.insert(1, env.__name__ if isinstance(env, type) else str(env))
        return "_".join(parts).replace("/", "_")

    __repr__ = __str__

    @property
    def path(self) -> str:
        """The trial's folder."""
        return os.path.join(self.local_experiment_path, self.folder)

    local_path = path

    @property
    def local_dir(self) -> str:
        """The folder of the search."""
        return self.local_experiment_path

    @property
    def logdir(self) -> NoReturn:
        """Refused (DeprecationWarning): ``local_path`` is the trial's folder."""
        raise DeprecationWarning("Use `local_path` instead of `logdir`.")

    @property
    def custom_trial_name(self) -> str | None:
        """The name by ``trial_name_creator``; None without one."""
        return self.custom_name or None

    @property
    def experiment_dir_name(self) -> str:
        """The name of the search's folder."""
        return os.path.basename(self.local_experiment_path)

    @property
    def node_ip(self) -> str | None:
        """The address of the node that it reported from last; None before that."""
        return self.last_result.get("node_ip")

    @property
    def error_file(self) -> str | None:
        """The file with the text of its last error; None if it never failed."""
        return self._file_of_error("error.txt")

    @property
    def pickled_error_file(self) -> str | None:
        """The file with its last error; None if it never failed, or the error cannot be pickled."""
        return self._file_of_error("error.pkl")

    def _file_of_error(self, name: str) -> str | None:
        path = os.path.join(self.path, name)
        return path if self.error_text and os.path.exists(path) else None

    def error_line(self) -> str:
        """The trial's last error in a line: the first paragraph of the message.

        Advice and tracebacks of other processes may follow it.
        """
        if self.error is None:
            return (self.error_text.strip().splitlines() or ["it left no text"])[-1].strip()
        error = user_error(self.error)
        first = str(error).strip().split("\n\n")[0]
        text = f"{type(error).__name__}: {' '.join(first.split())}".removesuffix(": ")
        return text if len(text) <= _MAX_ERROR_LINE else text[:_MAX_ERROR_LINE] + "..."

    def get_error(self) -> str | None:
        """Return the text of its last error; None if it never failed."""
        return self.error_text or None

    def get_pickled_error(self) -> BaseException | None:
        """Return its last error; None if it never failed."""
        return self.error

    def get_ray_actor_ip(self) -> str | None:
        """Return the address of the node that it reported from last; None before that."""
        return self.node_ip

    def get_trainable_cls(self) -> Any:
        """Return the class whose steps it runs; None where no trainable of that name is registered."""
        from heliostat.tune.registry import get_trainable_cls, trainable_exists

        known = trainable_exists(self.trainable_name)
        return get_trainable_cls(self.trainable_name) if known else None

    @property
    def checkpoint_freq(self) -> int:
        """After how many results a checkpoint is made; 0: never."""
        return (self.checkpoint_config and self.checkpoint_config.checkpoint_frequency) or 0

    @property
    def checkpoint_at_end(self) -> bool:
        """Whether a checkpoint is made at the end."""
        return bool(self.checkpoint_config and self.checkpoint_config.checkpoint_at_end)

    def should_checkpoint(self) -> bool:
        """Return whether a checkpoint is due after the last result."""
        if self.last_result.get("done") and self.checkpoint_at_end:
            return True
        iteration = self.last_result.get("training_iteration", 0)
        return bool(self.checkpoint_freq) and iteration % self.checkpoint_freq == 0

    def should_recover(self) -> bool:
        """Return whether it is tried again after a failure."""
        return self.max_failures < 0 or self.num_failures <= self.max_failures

    @property
    def has_reported_at_least_once(self) -> bool:
        """Whether there is a result."""
        return bool(self.last_result)

    def has_checkpoint(self) -> bool:
        """Return whether there is a checkpoint."""
        return self.checkpoint_path is not None

    @property
    def checkpoint(self) -> Checkpoint | None:
        """The latest checkpoint; None without one."""
        return self.checkpoint_at(self.checkpoint_path) if self.checkpoint_path else None

    def checkpoint_at(self, path: str) -> Checkpoint:
        """Return the checkpoint with a path, such as one of ``checkpoints``."""
        return checkpoint_at(path, self.storage)

    def set_config(self, config: Config, experiment_tag: str | None = None) -> None:
        """Give the trial another configuration (and tag), from its next start on."""
        self.config, self.is_changed = config, True
        self.experiment_tag = self.experiment_tag if experiment_tag is None else experiment_tag

    def take_over(self, other: Trial) -> None:
        """Go on from the checkpoint of another trial, from the next start on."""
        if other.checkpoint_path is not None:
            self.handed = Handed(
                other.checkpoint_path,
                other.restore_iteration,
                other.restore_total_s,
                other.restore_counts,
            )

    def update_resources(self, resources: Mapping[str, float] | PlacementGroupFactory) -> None:
        """Give the trial other resources, from its next start on.

        Raises:
            ValueError: The trial runs, or ``resources`` is neither.
        """
        if self.status == RUNNING:
            raise ValueError(f"{self} runs: pause it before its resources are changed.")
        self.placement_group_factory = as_resources(resources)

    def set_status(self, status: str) -> None:
        """Say how the trial stands; of a search's trials the search says it."""
        self.status = status

    def set_experiment_tag(self, experiment_tag: str) -> None:
        """Give the trial another short text of what was chosen."""
        self.experiment_tag = experiment_tag

    def update_last_result(self, result: Report) -> None:
        """Take in a result of a trial that no search runs."""
        self.last_result = result
        self._told.append(result)

    def should_stop(self, result: Mapping[str, Any]) -> bool:
        """Return whether a result is the last one: it is done, or a criterion is met."""
        met = (rank(self, name, result) >= bound for name, bound in self.stopping_criterion.items())
        return bool(result.get("done")) or any(met)

    def reset(self) -> Trial:
        """Return a new trial, with another id, of the same configuration."""
        return Trial(
            self.trainable_name,
            config=self.config,
            evaluated_params=self.evaluated_params,
            experiment_tag=self.experiment_tag,
            local_experiment_path=self.local_experiment_path,
            placement_group_factory=self.placement_group_factory,
            stopping_criterion=self.stopping_criterion,
        )

    @classmethod
    def generate_id(cls) -> str:
        """Return an id for a trial: eight letters and digits."""
        return _new_id()

    def is_finished(self) -> bool:
        """Whether nothing more will come of it."""
        return self.status in (TERMINATED, ERROR)

    @property
    def metric_analysis(self) -> dict[str, dict[str, float]]:
        """Figures of the metrics that are numbers: "max", "min", "avg", "last", "last-5-avg", "last-10-avg".

        Nested metrics are named ``a/b``. Read from the trial's file of reports each time.
        """
        found = {}
        for name, values in self._history().items():
            spans = {"avg": values, "last-5-avg": values[-5:], "last-10-avg": values[-10:]}
            means = {span: sum(some) / len(some) for span, some in spans.items()}
            found[name] = {"max": max(values), "min": min(values), "last": values[-1], **means}
        return found

    @property
    def metric_n_steps(self) -> dict[str, dict[str, list[float]]]:
        """The last five ("5") and ten ("10") values of each metric that is a number."""
        return {
            name: {str(count): values[-count:] for count in (5, 10)}
            for name, values in self._history().items()
        }

    def results(self) -> list[Report]:
        """Return its reports, nested metrics named ``a/b``, without the configuration."""
        from heliostat.tune.stopper import flattened

        rows = self._told or read_results(self.path)
        return [flattened({k: v for k, v in row.items() if k != "config"}) for row in rows]

    def _history(self) -> dict[str, list[float]]:
        found: dict[str, list[float]] = {}
        for row in self.results():
            for name, value in row.items():
                if isinstance(value, Number):
                    found.setdefault(name, []).append(value)  # type: ignore[arg-type] # it has an order
        return found

    def default_folder(self) -> str:
        """A folder's name that says which trial it is."""
        if self.custom_dirname:
            return self.custom_dirname
        kept = "".join(c if c.isalnum() or c in "_-.,=+" else "_" for c in self.experiment_tag)
        stem = f"{self}_{kept}".replace("/", "_")[: settings.whole("TUNE_MAX_LEN_IDENTIFIER")]
        return f"{stem}_{datetime.datetime.now():%Y-%m-%d_%H-%M-%S}"


def rank(trial: Trial, metric: str, result: Mapping[str, object]) -> float:
    """The metric's value in a result, from nested ones by ``a/b``; NaN where there is none."""
    value: Any = result
    if metric in result:
        value = result[metric]
    else:
        for key in metric.split("/"):
            value = value.get(key) if isinstance(value, Mapping) else None
    try:
        return float(value)
    except (TypeError, ValueError):
        return float("nan")


def best_checkpoints(trial: Trial, config: CheckpointConfig | None) -> list[tuple[str, Report]]:
    """A trial's checkpoints, the best one last: by their score, or by their age where none was asked for.

    No more than ``num_to_keep``. The latest one is kept on disk beside them, for a restart.
    """
    found = list(trial.checkpoints)
    if config is None:
        return found
    metric = config.checkpoint_score_attribute
    if metric is not None:
        sign = 1 if config.checkpoint_score_order == "max" else -1
        scores = [sign * rank(trial, metric, metrics) for _, metrics in found]
        order = sorted(
            range(len(found)), key=lambda i: -math.inf if math.isnan(scores[i]) else scores[i]
        )
        found = [found[i] for i in order]
    return found if config.num_to_keep is None else found[-config.num_to_keep :]
