"""The context of a running trial: its names, its checkpoint, its reports."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, NoReturn

from heliostat.train.checkpoint import Checkpoint
from heliostat.train.context import set_instead
from heliostat.tune.aliases import Report

if TYPE_CHECKING:
    from heliostat.tune.trainable.function_run import FunctionRun

logger = logging.getLogger("heliostat")

# One trial runs in a process at a time.
_running: list[Any] = []


def enter(run: object) -> None:
    """The trial that this process runs."""
    _running[:] = [run]
    names = ("report", "get_context", "get_checkpoint")
    set_instead({name: f"tune.{name}" for name in names})


def leave() -> None:
    """No trial runs here any more."""
    _running.clear()
    set_instead({})


def _run() -> Any:
    return _running[0] if _running else None


def in_trial() -> bool:
    """Return whether this process runs a trial."""
    return bool(_running)


def report(metrics: Report, *, checkpoint: Checkpoint | None = None) -> None:
    """Report metrics of the running trial, perhaps with a checkpoint. Elsewhere it does nothing.

    Args:
        metrics: Names and values.
        checkpoint: A folder of files. They are copied before this returns.

    Raises:
        TypeError: ``metrics`` is not a dict, or ``checkpoint`` is not a ``Checkpoint``.

    Examples:
        >>> import pathlib, tempfile
        >>> from ray import tune
        >>> def trial(config):
        ...     for step in range(2):
        ...         with tempfile.TemporaryDirectory() as folder:
        ...             _ = pathlib.Path(folder, "step.txt").write_text(str(step))
        ...             saved = tune.Checkpoint.from_directory(folder)
        ...             tune.report({"loss": 1 / (step + 1)}, checkpoint=saved)
        >>> results = tune.Tuner(trial, run_config=tune.RunConfig(name="reports", verbose=0)).fit()
        >>> results[0].metrics["loss"]
        0.5
        >>> with results[0].checkpoint.as_directory() as folder:
        ...     pathlib.Path(folder, "step.txt").read_text()
        '1'
    """
    run: FunctionRun | None = _run()
    if run is None or not hasattr(run, "report"):
        logger.warning(
            "`tune.report` does nothing here: it is for functions that a Tuner runs. A class trainable "
            "returns its metrics from step()."
        )
        return
    if not isinstance(metrics, dict):
        raise TypeError(f"tune.report takes a dict of metrics, not {type(metrics).__name__}.")
    if checkpoint is not None and not isinstance(checkpoint, Checkpoint):
        raise TypeError(f"checkpoint must be a tune.Checkpoint, not {type(checkpoint).__name__}.")
    run.report(metrics, checkpoint)


def get_checkpoint() -> Checkpoint | None:
    """Return the checkpoint that the trial begins from, or that it reported last; None without one.

    Examples:
        >>> from ray import tune
        >>> def objective(config):
        ...     tune.report({"from_checkpoint": tune.get_checkpoint() is not None})
        >>> results = tune.Tuner(objective, run_config=tune.RunConfig(verbose=0)).fit()
        >>> results[0].metrics["from_checkpoint"]
        False
    """
    run = _run()
    path = run.checkpoint if run is not None else None
    return run.spec.checkpoint_at(path) if path else None


class TuneContext:
    """The running trial's names and places; None outside of a trial.

    Examples:
        >>> from ray import tune
        >>> def objective(config):
        ...     context = tune.get_context()
        ...     tune.report({"name": context.get_trial_name(), "search": context.get_experiment_name()})
        >>> config = tune.RunConfig(name="named", verbose=0)
        >>> metrics = tune.Tuner(objective, run_config=config).fit()[0].metrics
        >>> metrics["name"].startswith("objective_"), metrics["search"]
        (True, 'named')
    """

    def get_experiment_name(self) -> str | None:
        """Return the name of the search."""
        return _text(self._of("experiment_name"))

    def get_trial_name(self) -> str | None:
        """Return the trial's name."""
        return _text(self._of("trial_name"))

    def get_trial_id(self) -> str | None:
        """Return the trial's id."""
        return _text(self._of("trial_id"))

    def get_trial_resources(self) -> Any:
        """Return the ``PlacementGroupFactory`` of the trial."""
        return self._of("resources")

    def get_trial_dir(self) -> str | None:
        """Return the trial's folder."""
        return _text(self._of("folder"))

    def get_metadata(self) -> NoReturn:
        """Refused: trainers have metadata; trials do not.

        Raises:
            RuntimeError: Always.
        """
        raise RuntimeError(_OF_TRAINERS.format("get_metadata"))

    def get_world_size(self) -> NoReturn:
        """Refused: training workers have ranks; trials do not.

        Raises:
            RuntimeError: Always.
        """
        raise RuntimeError(_OF_TRAINERS.format("get_world_size"))

    get_world_rank = get_local_rank = get_local_world_size = get_node_rank = get_world_size

    @staticmethod
    def _of(name: str) -> Any:
        run = _run()
        return None if run is None else getattr(run.spec, name)


def _text(value: object) -> str | None:
    return None if value is None else str(value)


_OF_TRAINERS = "`{}` is of training workers: call it on ray.train.get_context() in one."
_context = TuneContext()


def get_context() -> TuneContext:
    """Return what is known of the running trial.

    Examples:
        >>> from ray import tune
        >>> def trial(config):
        ...     tune.report({"named": tune.get_context().get_experiment_name()})
        >>> results = tune.Tuner(trial, run_config=tune.RunConfig(name="who", verbose=0)).fit()
        >>> results[0].metrics["named"]
        'who'
    """
    return _context
