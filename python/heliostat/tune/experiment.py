"""``Experiment``: what ``tune.run_experiments`` runs."""

from __future__ import annotations

import datetime
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from heliostat.tune.aliases import Config
from heliostat.tune.config import CheckpointConfig, RunConfig, SyncConfig, of_search
from heliostat.tune.error import TuneError
from heliostat.tune.registry import register_trainable, registered
from heliostat.tune.runner.trial import Trial
from heliostat.tune.stopper import Stopper, stopper_of
from heliostat.tune.trainable.output import log_files
from heliostat.tune.trainable.util import check, check_checkpoints, is_class, name_of

__all__ = ["Experiment", "Trial"]

_IN_SPEC = (
    "time_budget_s",
    "resources_per_trial",
    "num_samples",
    "checkpoint_config",
    "trial_name_creator",
    "trial_dirname_creator",
    "max_failures",
    "restore",
)


class NoTrainable(TuneError, TypeError):
    """A class that is not a trainable, for which Ray raises ``TypeError``."""


class Experiment:
    """A search of several that run after each other.

    Args:
        name: Of the search and its folder.
        run: A function of a config, a subclass of ``tune.Trainable``, or the name of a registered one.
        stop: As in ``RunConfig``.
        time_budget_s: Seconds, or a ``timedelta``, after which the search ends.
        config: The search space.
        resources_per_trial: As ``tune.with_resources`` takes them. Default: one CPU.
        num_samples: How many times the space is sampled; -1: without end.
        storage_path: Folder that holds searches. Default ``~/ray_results``.
        storage_filesystem, sync_config, log_to_file, export_formats: As in ``tune.run``.
        checkpoint_config: A ``CheckpointConfig``, or a dict of its fields.
        trial_name_creator, trial_dirname_creator: Functions of a trial that return its name, and its
            folder's.
        max_failures: How many times a trial is tried again; -1: without end.
        restore: Folder of a checkpoint that every trial begins from.
        local_dir: Refused (DeprecationWarning): pass ``storage_path``.

    Attributes:
        name: Of the search and its folder.
        spec: What was given, by the names of the arguments, as trials are made of it.

    Raises:
        TuneError: ``run`` is not known.
        ValueError: ``run`` takes no config, ``name`` cannot be the name of a folder, ``stop`` or
            ``log_to_file`` makes no sense, or a function is to be saved after so many steps.
        DeprecationWarning: ``local_dir`` was given.

    Examples:
        >>> from ray import tune
        >>> def objective(config):
        ...     tune.report({"loss": config["x"]})
        >>> search = tune.Experiment("three", objective, config={"x": tune.grid_search([1, 2, 3])})
        >>> len(tune.run(search, verbose=0).trials)
        3
    """

    # The experiment as callbacks are told of it.
    PUBLIC_KEYS = frozenset(("stop", "num_samples", "time_budget_s"))

    def __init__(
        self,
        name: str,
        run: str | Callable[..., object] | type,
        *,
        stop: object = None,
        time_budget_s: int | float | datetime.timedelta | None = None,
        config: Config | None = None,
        resources_per_trial: object = None,
        num_samples: int = 1,
        storage_path: str | None = None,
        storage_filesystem: object = None,
        sync_config: SyncConfig | Mapping[str, Any] | None = None,
        checkpoint_config: CheckpointConfig | Mapping[str, Any] | None = None,
        trial_name_creator: Callable[[Trial], str] | None = None,
        trial_dirname_creator: Callable[[Trial], str] | None = None,
        log_to_file: bool | str | tuple[str, str] = False,
        export_formats: Sequence[str] | None = None,
        max_failures: int = 0,
        restore: str | None = None,
        local_dir: str | None = None,
    ) -> None:
        if local_dir is not None:
            raise DeprecationWarning("`Experiment(local_dir)` is gone: pass `storage_path`.")
        trainable = registered(run) if isinstance(run, str) else run
        if inspect.isclass(trainable) and not is_class(trainable):
            raise NoTrainable(
                f"run={trainable.__name__} is a class that does not inherit from tune.Trainable."
            )
        check(trainable)
        if config is not None and not isinstance(config, Mapping):
            raise ValueError(
                f"config must be a dict of names and values, not {type(config).__name__}."
            )
        if isinstance(checkpoint_config, Mapping):
            checkpoint_config = CheckpointConfig(**checkpoint_config)
        checkpoint_config = of_search(checkpoint_config) or CheckpointConfig()
        check_checkpoints(trainable, checkpoint_config)
        # Bounds are in the spec.
        other = None if isinstance(stop, Mapping) else stop
        said = other is not None or time_budget_s is not None
        self._stopper = stopper_of(other, time_budget_s) if said else None
        files = log_files(log_to_file)
        if isinstance(sync_config, Mapping):
            sync_config = SyncConfig(**sync_config)
        self.name = (
            name or f"{self.get_trainable_name(run)}_{datetime.datetime.now():%Y-%m-%d_%H-%M-%S}"
        )
        self.run = run
        # Further arguments of tune.run.
        self.arguments: dict[str, Any] = {
            "stop": stop,
            "time_budget_s": time_budget_s,
            "config": config,
            "resources_per_trial": resources_per_trial,
            "num_samples": num_samples,
            "storage_path": storage_path,
            "storage_filesystem": storage_filesystem,
            "sync_config": sync_config,
            "checkpoint_config": checkpoint_config,
            "trial_name_creator": trial_name_creator,
            "trial_dirname_creator": trial_dirname_creator,
            "log_to_file": log_to_file,
            "export_formats": export_formats,
            "max_failures": max_failures,
            "restore": restore,
        }
        self._place = RunConfig(name=self.name, storage_path=storage_path)
        kept = {key: self.arguments[key] for key in _IN_SPEC}
        self.spec: dict[str, object] = {
            **kept,
            "run": self.run_identifier,
            "stop": self.public_spec["stop"],
            "config": dict(config or {}),
            "log_to_file": tuple(files) if files else (None, None),
            "export_formats": list(export_formats or []),
        }

    @property
    def path(self) -> str:
        """The folder of the search."""
        return f"{self._place.folder}/{self.name}"

    @property
    def local_path(self) -> str:
        """The folder of the search."""
        return self.path

    @property
    def remote_path(self) -> str:
        """The folder of the search, which is where it is stored, too."""
        return self.path

    @property
    def local_dir(self) -> NoReturn:
        """Refused (DeprecationWarning): ``local_path`` is the folder of the search."""
        raise DeprecationWarning("Use `local_path` instead of `local_dir`.")

    @property
    def checkpoint_dir(self) -> NoReturn:
        """Refused (DeprecationWarning): ``local_path`` is the folder of the search."""
        raise DeprecationWarning("Use `local_path` instead of `checkpoint_dir`.")

    @property
    def stopper(self) -> Stopper | None:
        """The rules that end trials; None where there are none but the bounds in ``spec["stop"]``."""
        return self._stopper

    @property
    def checkpoint_config(self) -> CheckpointConfig:
        """The choice of the checkpoints that are made and kept."""
        config: CheckpointConfig = self.arguments["checkpoint_config"]
        return config

    @property
    def public_spec(self) -> dict[str, object]:
        """The experiment's "stop" (empty where that is not a dict), "num_samples" and "time_budget_s"."""
        stop = self.arguments["stop"]
        return {
            "stop": stop if isinstance(stop, Mapping) else {},
            "num_samples": self.arguments["num_samples"],
            "time_budget_s": self.arguments["time_budget_s"],
        }

    @property
    def run_identifier(self) -> str:
        """The name under which trials are shown."""
        return self.get_trainable_name(self.run)

    @classmethod
    def get_trainable_name(cls, run_object: object) -> str:
        """Return the name under which trials of a trainable are shown.

        Args:
            run_object: A trainable, or its name.

        Raises:
            TuneError: It is neither a name nor something to call.
        """
        if isinstance(run_object, str):
            return run_object
        if not callable(run_object):
            raise TuneError(f"{run_object!r} is neither a trainable nor the name of one.")
        return name_of(run_object)

    @classmethod
    def register_if_needed(cls, run_object: object) -> str:
        """Register a trainable under its own name.

        Args:
            run_object: A trainable; a string is a name already.

        Returns:
            The name.

        Raises:
            TypeError: It is neither a function nor a class of trials.
        """
        if isinstance(run_object, str):
            return run_object
        name = cls.get_trainable_name(run_object)
        register_trainable(name, run_object)
        return name

    @classmethod
    def from_json(cls, name: str, spec: Mapping[str, Any]) -> Experiment:
        """Return the experiment that a dict describes: "run", and arguments of this class.

        Args:
            name: Of the search and its folder.
            spec: The dict.

        Raises:
            TuneError: There is no "run", or a name is not an argument.
        """
        if "run" not in spec:
            raise TuneError(f"The experiment {name!r} has no 'run': name its trainable there.")
        spec = dict(spec)
        if "env" in spec:  # of reinforcement learning: a value of the configuration
            spec["config"] = {**(spec.get("config") or {}), "env": spec.pop("env")}
        try:
            inspect.signature(cls).bind(name, **spec)
        except TypeError as error:
            raise TuneError(f"The experiment {name!r} cannot be made: {error}.") from None
        return cls(name, **spec)


def experiments_of(given: object) -> list[Experiment]:
    """The experiments in one, in a dict by name, or in a list of both; None has none.

    Raises:
        TuneError: It is something else.
    """
    if given is None:
        return []
    if isinstance(given, Experiment):
        return [given]
    if isinstance(given, Mapping):
        return [Experiment.from_json(name, spec) for name, spec in given.items()]
    if isinstance(given, list | tuple):
        return [one for part in given for one in experiments_of(part)]
    raise TuneError(
        f"Experiments are an Experiment, a dict of names and specs, or a list of them, not {given!r}."
    )
