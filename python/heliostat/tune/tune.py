"""``tune.run`` and ``tune.run_experiments``: a search in one call, with ``Tuner`` beneath."""

from __future__ import annotations

import copy
import datetime
import os
from collections.abc import Callable, Sequence
from typing import Any

from heliostat.tune.aliases import Config
from heliostat.tune.analysis import ExperimentAnalysis
from heliostat.tune.config import (
    CheckpointConfig,
    FailureConfig,
    ResumeConfig,
    ResumeType,
    RunConfig,
    SyncConfig,
    TuneConfig,
    of_search,
)
from heliostat.tune.error import TuneError
from heliostat.tune.experiment import Experiment, experiments_of
from heliostat.tune.runner.trial import ERROR, Trial
from heliostat.tune.tuner import Tuner


def run(
    run_or_experiment: str | Callable[..., object] | type | Experiment | Sequence[Experiment],
    *,
    name: str | None = None,
    metric: str | None = None,
    mode: str | None = None,
    stop: object = None,
    time_budget_s: int | float | datetime.timedelta | None = None,
    config: Config | None = None,
    resources_per_trial: object = None,
    num_samples: int = 1,
    storage_path: str | None = None,
    storage_filesystem: Any | None = None,
    search_alg: Any | None = None,
    scheduler: Any | None = None,
    checkpoint_config: CheckpointConfig | None = None,
    verbose: Any | None = None,
    progress_reporter: Any | None = None,
    log_to_file: bool | str | tuple[str, str] = False,
    trial_name_creator: Callable[[Trial], str] | None = None,
    trial_dirname_creator: Callable[[Trial], str] | None = None,
    sync_config: SyncConfig | None = None,
    export_formats: Sequence[str] | None = None,
    max_failures: int = 0,
    fail_fast: bool | str = False,
    restore: str | None = None,
    resume: bool | str | None = None,
    resume_config: ResumeConfig | None = None,
    reuse_actors: bool = False,
    raise_on_failed_trial: bool = True,
    callbacks: Sequence[Any] | None = None,
    max_concurrent_trials: int | None = None,
    keep_checkpoints_num: int | None = None,
    checkpoint_score_attr: str | None = None,
    checkpoint_freq: int = 0,
    checkpoint_at_end: bool = False,
    chdir_to_trial_dir: bool | str = "DEPRECATED",
    local_dir: str | None = None,
    _remote: bool | None = None,
) -> ExperimentAnalysis:
    """Run a search to its end and return what came of it.

    Args:
        run_or_experiment: A function of a config that calls ``tune.report``, a subclass of
            ``tune.Trainable``, the name of a registered one, or an ``Experiment``, whose own arguments
            then count. A list of experiments is run one after the other; all their trials are returned.
        name, storage_path: The search's folder is ``storage_path/name``. Default: ``~/ray_results``, and
            the trainable's name with the time.
        metric, mode: What is optimized, and "min" or "max".
        stop: A dict of bounds, a ``Stopper``, or a function of trial id and result.
        time_budget_s: Seconds, or a ``timedelta``, after which the search ends.
        config: The search space.
        resources_per_trial: As ``tune.with_resources`` takes them, for trainables that do not say it by
            themselves. Default: one CPU.
        num_samples: How many times the space is sampled; -1: without end.
        storage_filesystem: A ``pyarrow.fs`` or fsspec filesystem that ``storage_path`` is a path on.
        search_alg, scheduler: Objects, or their names.
        checkpoint_config: Which checkpoints are made and kept.
        verbose: 0: nothing is printed; 1 (default) and more: the state of the search.
        progress_reporter, log_to_file: As in ``RunConfig``.
        trial_name_creator, trial_dirname_creator: Functions of a trial that return its name, and its
            folder's.
        sync_config: Kept, without an effect: files are written where they belong.
        export_formats: Refused so far.
        max_failures: How many times a trial is tried again; -1: without end.
        fail_fast: True: the first failure ends the search. "raise": it is raised.
        restore: Folder of a checkpoint that every trial begins from.
        resume: True or "AUTO": go on with the search of that name where there is one. With "+ERRORED"
            failed trials go on, with "+RESTART_ERRORED" they begin anew; "+ERRORED_ONLY" and
            "+RESTART_ERRORED_ONLY" leave unfinished ones as they are.
        resume_config: The same by a ``ResumeConfig``; ``resume`` is then True.
        reuse_actors: A process runs one trial after the other, as in ``TuneConfig``. False: each has its own.
        raise_on_failed_trial: Raise when a trial failed.
        callbacks: Objects with ``on_trial_result`` and the like; see ``tune.Callback``.
        max_concurrent_trials: How many trials run at a time. Default: as many as fit.
        keep_checkpoints_num, checkpoint_score_attr, checkpoint_freq, checkpoint_at_end: Older names for
            the fields of ``checkpoint_config``, taken where that has none.
        chdir_to_trial_dir: Refused (DeprecationWarning): set RAY_CHDIR_TO_TRIAL_DIR.
        local_dir: Refused (DeprecationWarning): pass ``storage_path``.

    Returns:
        The trials and their results.

    Raises:
        TuneError: A trial failed (its ``args[1]`` lists the failed trials), the trainable is not known,
            or the search itself cannot go on.
        ValueError: An argument makes no sense, or nothing can be resumed.
        NotImplementedError: An argument is refused so far; the message names what to use.
        DeprecationWarning: ``local_dir`` or ``chdir_to_trial_dir`` was given.

    Examples:
        >>> from ray import tune
        >>> def objective(config):
        ...     tune.report({"loss": (config["x"] - 2) ** 2})
        >>> space = {"x": tune.grid_search([1, 2, 3])}
        >>> tune.run(objective, config=space, metric="loss", mode="min", verbose=0).best_config
        {'x': 2}
    """
    if isinstance(run_or_experiment, list | tuple) and len(run_or_experiment) == 1:
        run_or_experiment = run_or_experiment[0]
    given = dict(locals())  # the arguments alone: no other local stands above this line
    if isinstance(run_or_experiment, list | tuple):
        return _run_each(given)
    if isinstance(run_or_experiment, Experiment):
        given.update(run_or_experiment.arguments, name=run_or_experiment.name)
        given["run_or_experiment"] = run_or_experiment.run
    _refuse(given)
    if local_dir is not None:
        raise DeprecationWarning("`tune.run(local_dir)` is gone: pass `storage_path`.")
    tune_config = TuneConfig(
        metric=metric,
        mode=mode,
        search_alg=search_alg,
        scheduler=scheduler,
        num_samples=given["num_samples"],
        max_concurrent_trials=max_concurrent_trials,
        time_budget_s=given["time_budget_s"],
        reuse_actors=reuse_actors,
        trial_name_creator=given["trial_name_creator"],
        trial_dirname_creator=given["trial_dirname_creator"],
        chdir_to_trial_dir=chdir_to_trial_dir,
    )
    run_config = RunConfig(
        name=given["name"],
        storage_path=given["storage_path"],
        storage_filesystem=given["storage_filesystem"],
        failure_config=FailureConfig(given["max_failures"], fail_fast),
        checkpoint_config=_checkpoints(given),
        sync_config=given["sync_config"],
        verbose=verbose,
        stop=given["stop"],
        callbacks=list(callbacks or []),
        progress_reporter=progress_reporter,
        log_to_file=given["log_to_file"],
    )
    tuner = _tuner(given, tune_config, run_config)
    grid = tuner.fit()
    trials = grid._trials
    failed = [trial for trial in trials if trial.status == ERROR]
    if failed and raise_on_failed_trial:
        raise TuneError("Trials did not complete", failed)
    return grid._analysis


def run_experiments(
    experiments: object,
    scheduler: Any | None = None,
    verbose: Any | None = None,
    progress_reporter: Any | None = None,
    resume: bool | str | None = None,
    resume_config: ResumeConfig | None = None,
    reuse_actors: bool = False,
    raise_on_failed_trial: bool = True,
    concurrent: bool = True,
    callbacks: Sequence[Any] | None = None,
    _remote: bool | None = None,
) -> list[Trial]:
    """Run searches one after the other and return the trials of all of them.

    Args:
        experiments: An ``Experiment``, a dict of names and specs (``{"name": {"run": f, ...}}``), or a
            list of them.
        scheduler: As in ``tune.run``; each search begins with a copy of it.
        verbose, resume, resume_config, reuse_actors, callbacks, progress_reporter: As in ``tune.run``.
        raise_on_failed_trial: Raise at the end when a trial failed.
        concurrent: Kept, without an effect: the trials of one search fill the cluster.

    Returns:
        The trials.

    Raises:
        TuneError: A trial failed (its ``args[1]`` lists the failed trials), or ``experiments`` is
            something else.

    Examples:
        >>> from ray import tune
        >>> def objective(config):
        ...     tune.report({"loss": config["x"]})
        >>> searches = {
        ...     "first": {"run": objective, "config": {"x": 1}},
        ...     "second": {"run": objective, "config": {"x": 2}},
        ... }
        >>> [trial.last_result["loss"] for trial in tune.run_experiments(searches, verbose=0)]
        [1, 2]
    """
    trials: list[Trial] = []
    for experiment in experiments_of(experiments):
        analysis = run(
            experiment,
            scheduler=copy.deepcopy(scheduler),
            verbose=verbose,
            progress_reporter=progress_reporter,
            resume=resume,
            resume_config=resume_config,
            reuse_actors=reuse_actors,
            raise_on_failed_trial=False,
            callbacks=callbacks,
            _remote=_remote,
        )
        trials.extend(analysis.trials)
    failed = [trial for trial in trials if trial.status == ERROR]
    if failed and raise_on_failed_trial:
        raise TuneError("Trials did not complete", failed)
    return trials


def _run_each(given: dict[str, Any]) -> ExperimentAnalysis:
    """The searches of several experiments, one after the other, and the trials of all of them."""
    experiments = experiments_of(given.pop("run_or_experiment"))
    if not experiments:
        raise TuneError("There is no experiment in the list: tune.run has nothing to run.")
    raises = given.pop("raise_on_failed_trial")
    trials: list[Trial] = []
    for experiment in experiments:
        given["scheduler"] = copy.deepcopy(given["scheduler"])
        last = run(experiment, raise_on_failed_trial=False, **given)
        trials.extend(last.trials)
    failed = [trial for trial in trials if trial.status == ERROR]
    if failed and raises:
        raise TuneError("Trials did not complete", failed)
    return ExperimentAnalysis(
        last.experiment_path,
        storage_filesystem=given["storage_filesystem"],
        trials=trials,
        default_metric=given["metric"],
        default_mode=given["mode"],
    )


_INSTEAD = {
    "export_formats": "write the model in save_checkpoint() of the trainable, and set checkpoint_at_end",
    "_remote": "call tune.run in a task of your own",
}


def _refuse(given: dict[str, Any]) -> None:
    for name, instead in _INSTEAD.items():
        if given[name]:
            raise NotImplementedError(f"{name}={given[name]!r} is not there so far: {instead}.")


def _checkpoints(given: dict[str, Any]) -> CheckpointConfig:
    """The checkpoint config, with the older arguments where it says nothing."""
    config = copy.copy(of_search(given["checkpoint_config"]) or CheckpointConfig())
    if given["keep_checkpoints_num"] is not None:
        config.num_to_keep = given["keep_checkpoints_num"]
    if given["checkpoint_score_attr"] is not None:
        attribute = given["checkpoint_score_attr"]
        config.checkpoint_score_order = "min" if attribute.startswith("min-") else "max"
        config.checkpoint_score_attribute = attribute.removeprefix("min-")
    if given["checkpoint_freq"]:
        config.checkpoint_frequency = given["checkpoint_freq"]
    if given["checkpoint_at_end"]:
        config.checkpoint_at_end = True
    config.__post_init__()
    return config


def _tuner(given: dict[str, Any], tune_config: TuneConfig, run_config: RunConfig) -> Tuner:
    """A new search, or the one that is gone on with."""
    trainable = given["run_or_experiment"]
    resumed = _resumption(given["resume"], given["resume_config"])
    folder = None
    if resumed is not None:
        if run_config.name is None:
            raise ValueError("resume needs the `name` of the search.")
        folder = os.path.join(run_config.folder, run_config.name)
    filesystem = run_config.storage_filesystem
    if folder is not None and Tuner.can_restore(folder, filesystem):
        return Tuner.restore(
            folder,
            trainable,
            storage_filesystem=filesystem,
            _resume_config=resumed,
            _resources_per_trial=given["resources_per_trial"],
        )
    begin_from = given["restore"]
    if begin_from is not None:
        begin_from = os.path.abspath(os.path.expanduser(os.fspath(begin_from)))
        if not os.path.isdir(begin_from):
            raise ValueError(f"restore={begin_from!r} is not the folder of a checkpoint.")
    return Tuner(
        trainable,
        param_space=given["config"],
        tune_config=tune_config,
        run_config=run_config,
        _begin_from=begin_from,
        _resources_per_trial=given["resources_per_trial"],
    )


def _resumption(resume: bool | str | None, config: ResumeConfig | None) -> ResumeConfig | None:
    """Return the treatment of trials that ``resume`` means; None: the search begins anew."""
    if config is not None and resume not in (None, True, "AUTO"):
        raise ValueError("Pass one of resume and resume_config.")
    if config is not None:
        return config
    if not resume:
        return None
    first, *settings = ("AUTO" if resume is True else str(resume)).upper().split("+")
    known = {
        "ERRORED": ResumeConfig(errored=ResumeType.RESUME),
        "RESTART_ERRORED": ResumeConfig(errored=ResumeType.RESTART),
        "ERRORED_ONLY": ResumeConfig(unfinished=ResumeType.SKIP, errored=ResumeType.RESUME),
        "RESTART_ERRORED_ONLY": ResumeConfig(
            unfinished=ResumeType.SKIP, errored=ResumeType.RESTART
        ),
    }
    if first != "AUTO" or len(settings) > 1 or any(one not in known for one in settings):
        raise ValueError(
            f"resume={resume!r} must be True, False or 'AUTO', which may end in one of "
            f"{', '.join('+' + one for one in known)}."
        )
    return known[settings[0]] if settings else ResumeConfig()
