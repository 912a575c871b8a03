"""``Tuner``: a search over configurations."""

from __future__ import annotations

import contextlib
import datetime
import importlib
import importlib.util
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any

from heliostat.core.platform import settings as core_settings
from heliostat.core.platform.sessions import begin_unless_begun
from heliostat.train.config import RunConfig as TrainRunConfig
from heliostat.train.storage.arrow import ArrowStorage
from heliostat.train.storage.filesystems import resolve
from heliostat.tune.aliases import Config, Space
from heliostat.tune.callback import Callback, CallbackList
from heliostat.tune.config import (
    ResumeConfig,
    ResumeType,
    RunConfig,
    TuneConfig,
    of_search,
    said,
)
from heliostat.tune.environment import variables
from heliostat.tune.error import NoSearch, TuneError, search_error
from heliostat.tune.execution.placement_groups import as_resources, is_function_of_config
from heliostat.tune.logger import CSVLoggerCallback, TBXLoggerCallback
from heliostat.tune.page_row import SearchRow
from heliostat.tune.progress import Progress
from heliostat.tune.progress_reporter import Reported
from heliostat.tune.registry import registered
from heliostat.tune.result import DEFAULT_METRIC
from heliostat.tune.result_grid import ResultGrid
from heliostat.tune.runner.directory import announce
from heliostat.tune.runner.loop import Loop
from heliostat.tune.runner.mirror import JOURNAL, TUNER, fetch, has_search, staging_folder
from heliostat.tune.runner.search import Limits, Search
from heliostat.tune.runner.sources import Names, SearcherSource, VariantSource, evaluated
from heliostat.tune.runner.store import (
    SEARCHER,
    FolderTaken,
    Store,
    alone,
    pickled,
    read_settings,
    read_trials,
    unpickled,
)
from heliostat.tune.runner.trial import ERROR, PENDING, TERMINATED, Trial
from heliostat.tune.schedulers import FIFOScheduler, TrialScheduler, create_scheduler
from heliostat.tune.search import (
    BasicVariantGenerator,
    ConcurrencyLimiter,
    Searcher,
    SearchGenerator,
    create_searcher,
)
from heliostat.tune.search.variant_generator import Path, unresolved
from heliostat.tune.stopper import flattened, stopper_of
from heliostat.tune.trainable.function_trainable import FunctionTrainable
from heliostat.tune.trainable.output import log_files
from heliostat.tune.trainable.timing import counts_of
from heliostat.tune.trainable.util import check, check_checkpoints, name_of, resources_of
from heliostat.tune.view.choice import open_progress

logger = logging.getLogger("heliostat")

STRICT = "TUNE_DISABLE_STRICT_METRIC_CHECKING"


class Tuner:
    """Runs a trainable with many configurations.

    Args:
        trainable: A function of a config that calls ``tune.report``, a subclass of ``Trainable``, or the
            name of one that was registered with ``tune.register_trainable``.
        param_space: Names and values; domains such as ``tune.uniform(0, 1)`` and grids are searched. The
            settings of an algorithm (``ray.rllib``) are one, too.
        tune_config: What is searched for, and how.
        run_config: Where its files go, when trials end, what happens on failures.

    Raises:
        TuneError: ``trainable`` is none.
        ValueError: ``param_space`` is not a dict, or a function takes no config.

    Examples:
        >>> from ray import tune
        >>> def objective(config):
        ...     tune.report({"loss": (config["x"] - 2) ** 2})
        >>> tuner = tune.Tuner(
        ...     objective,
        ...     param_space={"x": tune.grid_search([1, 2, 3])},
        ...     tune_config=tune.TuneConfig(metric="loss", mode="min"),
        ...     run_config=tune.RunConfig(verbose=0),
        ... )
        >>> tuner.fit().get_best_result().config
        {'x': 2}
    """

    def __init__(
        self,
        trainable: object = None,
        *,
        param_space: Space | None = None,
        tune_config: TuneConfig | None = None,
        run_config: RunConfig | TrainRunConfig | None = None,
        _restored: tuple[str, list[Trial], dict[str, Any]] | None = None,
        _begin_from: str | None = None,
        _resources_per_trial: object = None,
    ) -> None:
        if trainable is None:
            raise TuneError("You need to provide a trainable to tune.")
        self._name = trainable if isinstance(trainable, str) else name_of(trainable)
        if isinstance(trainable, str):
            trainable = registered(trainable)
        check(trainable)
        if isinstance(trainable, type) and issubclass(trainable, FunctionTrainable):
            trainable = trainable.function  # runs by itself, without a call for each report
        as_dict = getattr(param_space, "to_dict", None)
        if as_dict is not None:  # settings of an algorithm
            param_space = as_dict()
        if param_space is not None and not isinstance(param_space, Mapping):
            raise ValueError(
                f"param_space must be a dict of names and values, not {type(param_space).__name__}."
            )
        if isinstance(run_config, TrainRunConfig):
            run_config = _from_train(run_config)
        self._trainable = trainable
        self._space = dict(param_space or {})
        self._tune = tune_config or TuneConfig()
        self._run = run_config or RunConfig()
        self._restored, self._begin_from = _restored, _begin_from
        if _resources_per_trial and not is_function_of_config(_resources_per_trial):
            _resources_per_trial = as_resources(_resources_per_trial)
        self._resources_per_trial = _resources_per_trial
        self._folder = ""
        self._storage: ArrowStorage | None = None  # of the search, where that is not a disk
        self._restored_from = ""  # as the program wrote it
        self._grid: ResultGrid | None = None
        self._folders = {trial.folder for trial in _restored[1]} if _restored else set()

    # --- running ---

    def fit(self) -> ResultGrid:
        """Run the search to its end; a result for each trial.

        A trial that fails is an error in the grid; it raises nothing. Ctrl-C ends the search, and what
        was done is kept.

        Raises:
            DeprecationWarning: An environment variable is set that no longer counts.
            ValueError: An environment variable has a value that it cannot have, a function is to be
                saved after so many steps, or another search uses the folder.
            OSError: The folder of the search cannot be made or written.
            TuneError: The search itself cannot go on: a searcher, a scheduler or a callback raised, or
                a trial did not report the metric.
        """
        self._variables = variables()
        check_checkpoints(self._trainable, self._run.checkpoint_config)
        if not core_settings.flag("TUNE_DISABLE_AUTO_INIT"):
            begin_unless_begun()
        run = self._run
        callbacks = CallbackList(_with_loggers(list(run.callbacks or [])))
        folder, store = self._open()
        store.has_tables = any(isinstance(one, CSVLoggerCallback) for one in callbacks)
        with _held(folder):
            return self._run_in(folder, store, callbacks)

    def _run_in(self, folder: str, store: Store, callbacks: CallbackList) -> ResultGrid:
        search, searcher = self._search(store)
        metric = self._tune.metric or search.scheduler.metric
        mode = self._tune.mode or search.scheduler.mode
        name = os.path.basename(self._address.rstrip("/"))
        told = SearchRow(name, self._address, metric, mode, search.source.total)
        # Behind the others, whose places their states have.
        callbacks = CallbackList([*callbacks, told])
        loop = self._open_loop(folder, search, store, callbacks, searcher)
        self._set_up_callbacks(folder, search, store, callbacks)
        progress = self._progress(metric, mode, search.source.total)
        is_interrupted = False
        try:
            with _Interruptible():
                loop.run(progress)
            self._leave_page(told, search, "FINISHED")
            store.close()
        except KeyboardInterrupt:
            is_interrupted = True
            self._leave_page(told, search, "INTERRUPTED")
            store.close(is_complete=False)
        except Exception as error:
            progress.close()
            told.end(search.get_trials(), "FAILED")
            self._leave_page(told, search, "FAILED", f"{type(error).__name__}: {error}")
            _end_early(callbacks, search)
            # The state on the disk or in the storage is known already, or is older than this.
            with contextlib.suppress(OSError, TuneError):
                store.close(is_complete=False)
            if isinstance(error, TuneError):
                raise
            raise _as_search_error(error, folder) from error
        told.end(search.get_trials(), "INTERRUPTED" if is_interrupted else "FINISHED")
        callbacks.on_experiment_end(trials=search.get_trials())
        progress.end(search.get_trials(), self._address)
        if is_interrupted:
            print(  # noqa: T201 # for the person who pressed the keys
                f"The search was interrupted. To go on: {_again(self._address)}", flush=True
            )
        return self._results(folder, search)

    def _open_loop(
        self,
        folder: str,
        search: Search,
        store: Store,
        callbacks: CallbackList,
        searcher: Searcher | None,
    ) -> Loop:
        """Make the loop over the trials, and tell the head how many of them may run at a time."""
        config, run = self._tune, self._run
        assert run.checkpoint_config is not None
        limited = getattr(config.search_alg, "max_concurrent", 0) or 0
        announce(
            folder,
            self._names.prefix,
            search.source.total,
            config.max_concurrent_trials or limited or getattr(searcher, "max_concurrent", 0),
        )
        return Loop(
            search,
            store,
            self._trainable,
            os.path.basename(self._address.rstrip("/")),
            run.checkpoint_config,
            callbacks,
            config.reuse_actors,
            config.max_concurrent_trials or (0 if searcher else limited),
            searcher.save if searcher else None,
            log_files(run.log_to_file),
            self._variables,
        )

    def _set_up_callbacks(
        self, folder: str, search: Search, store: Store, callbacks: CallbackList
    ) -> None:
        """Tell callbacks of the search, and give them back what they saved of a restored one."""
        stop = self._run.stop
        try:
            callbacks.setup(
                stop=stop if isinstance(stop, Mapping) else {},
                num_samples=_count(self._tune.num_samples),
                time_budget_s=self._tune.time_budget_s,
                total_num_samples=_count(search.source.total),
            )
            if self._restored is not None and callbacks.can_restore(folder):
                callbacks.restore_from_dir(folder)
        except BaseException:
            store.close()
            raise

    def _progress(self, metric: str | None, mode: str | None, total: int | None) -> Progress:
        """Return the printer of the search's state: the user's reporter, or Tune's own lines."""
        verbose = 1 if self._run.verbose is None else int(self._run.verbose)
        if self._run.progress_reporter is not None and verbose:
            return Reported(self._run.progress_reporter, metric, mode, total)
        return open_progress(verbose, metric, mode, total, self._tune.time_budget_s)

    def _results(self, folder: str, search: Search) -> ResultGrid:
        """The results of all trials; raises a trial's error where ``fail_fast="raise"``."""
        run = self._run
        assert run.checkpoint_config is not None
        assert run.failure_config is not None
        self._grid = ResultGrid.of(
            search.get_trials(),
            folder,
            self._tune.metric,
            self._tune.mode,
            run.checkpoint_config,
            self._storage,
        )
        if run.failure_config.fail_fast == "raise" and self._grid.errors:
            raise self._grid.errors[0]
        return self._grid

    def _leave_page(self, told: SearchRow, search: Search, state: str, error: str = "") -> None:
        """Write the page of the search into its folder; where that fails, the search is worth more."""
        from heliostat.tune.view.page import About, write_page
        from heliostat.tune.view.rows import earlier_curves

        name = os.path.basename(self._address.rstrip("/"))
        took_s = time.time() - told.started_at
        about = About(
            name, self._address, state, told.metric, told.mode, told.started_at, took_s, error
        )
        try:
            trials, curves = search.get_trials(), told.curves()
            if self._restored is not None and told.metric is not None:
                curves |= earlier_curves(trials, told.metric)
            write_page(self._folder, about, trials, curves)
        except Exception as failed:
            logger.warning("The search has no page: %r", failed)

    def opened(self) -> tuple[Search, Store, Searcher | None]:
        """The search with its files, for one who runs its trials himself."""
        self._variables = variables()
        _, store = self._open()
        store.has_results = False
        search, searcher = self._search(store)
        search.on_added = store.added
        search.on_ended = store.status
        return search, store, searcher

    @property
    def metric(self) -> str | None:
        """The metric that is optimized."""
        return self._tune.metric

    @property
    def mode(self) -> str | None:
        """ "min" or "max"."""
        return self._tune.mode

    def _open(self) -> tuple[str, Store]:
        if self._restored is not None:
            folder = self._restored[0]
            self._address = self._restored_from or folder
        else:
            stamp = datetime.datetime.now().strftime("%Y-%m-%d_%H-%M-%S")
            dated = f"{self._name}_{stamp}" if self._variables.has_dated_folder else self._name
            name = self._run.name or dated
            folder = self._address = f"{self._run.folder.rstrip('/')}/{name}"
            storage = self._run.storage(name)
            if isinstance(storage, ArrowStorage):
                if has_search(storage):
                    raise ValueError(
                        f"{folder} has a search already: go on with it by {_again(folder)}, or choose "
                        "another RunConfig(name=...)."
                    )
                folder, self._storage = staging_folder(name), storage
        self._folder = folder
        return folder, Store(folder, self._storage)

    def _search(self, store: Store) -> tuple[Search, Searcher | None]:
        config, run = self._tune, self._run
        _, trials, settings = self._restored or ("", [], {})
        names = self._names = Names(settings.get("prefix"))
        scheduler = self._scheduler()
        algorithm = config.search_alg
        if isinstance(algorithm, str):
            algorithm = create_searcher(algorithm)
        if isinstance(algorithm, SearchGenerator):
            algorithm = algorithm.searcher
        searcher: Searcher | None = None
        source: VariantSource | SearcherSource
        if algorithm is None or isinstance(algorithm, BasicVariantGenerator):
            source = VariantSource(
                algorithm or BasicVariantGenerator(),
                self._space,
                config.num_samples,
                names,
                self._make_trial,
                len(trials),
            )
        elif isinstance(algorithm, Searcher):
            searcher = self._prepared(algorithm, store)
            source = SearcherSource(
                searcher, self._space, config.num_samples, names, self._make_trial, len(trials)
            )
        else:
            raise TuneError(f"search_alg={algorithm!r} is neither a Searcher nor the name of one.")
        if not trials and source.is_finished:
            logger.warning(
                "There is nothing to try: num_samples=%s of this space makes no trial.",
                config.num_samples,
            )
        failure = run.failure_config
        assert failure is not None
        limits = Limits(
            failure.max_failures,
            bool(failure.fail_fast),
            self._variables.restore_retries,
            _named(config.metric, scheduler.metric, getattr(searcher, "metric", None)),
            not core_settings.flag(STRICT),
        )
        stopper = stopper_of(run.stop, config.time_budget_s)
        search = Search(source, scheduler, stopper, limits, list(trials))
        search.resources_of = lambda trial: resources_of(
            self._trainable, trial.config, self._resources_per_trial
        )
        store.begin(self._settings(names), goes_on=self._restored is not None)
        for trial in trials:
            wanted = search.resources_of(trial)
            if wanted is not None:
                trial.placement_group_factory = wanted
            store.status(trial)
            scheduler.on_trial_add(search, trial)
        return search, searcher

    def _scheduler(self) -> TrialScheduler:
        config = self._tune
        scheduler = config.scheduler or FIFOScheduler()
        if isinstance(scheduler, str):
            scheduler = create_scheduler(scheduler)
        if not isinstance(scheduler, TrialScheduler):
            raise TuneError(f"scheduler={scheduler!r} is neither a scheduler nor the name of one.")
        if not scheduler.set_search_properties(config.metric, config.mode):
            raise ValueError(
                "The metric was given to TuneConfig and to the scheduler, or a mode that differs: pass them "
                "to one of the two."
            )
        return scheduler

    def _prepared(self, searcher: Searcher, store: Store) -> Searcher:
        config = self._tune
        most = config.max_concurrent_trials or 0
        if most > 0 and not isinstance(searcher, ConcurrencyLimiter):
            searcher = ConcurrencyLimiter(searcher, most)
        saved = os.path.join(store.folder, SEARCHER)
        if self._restored is not None and os.path.exists(saved):
            searcher.restore(saved)
            return searcher
        stop = self._run.stop
        taken = searcher.set_search_properties(
            config.metric,
            config.mode,
            self._space,
            stop=stop if isinstance(stop, Mapping) else {},
            num_samples=config.num_samples,
            time_budget_s=config.time_budget_s,
        )
        if not taken and next(unresolved(self._space), None) is not None:
            raise ValueError(
                "The search space was given to the Tuner and to the search algorithm: pass it to one of "
                "them. (param_space may hold constants for an algorithm with a space of its own.)"
            )
        return searcher

    def _make_trial(
        self, trial_id: str, config: Config, chosen: Mapping[Path, object], tag: str
    ) -> Trial:
        trial = Trial(
            self._name,
            config=config,
            trial_id=trial_id,
            evaluated_params=evaluated(chosen),
            experiment_tag=tag,
            local_experiment_path=self._folder,
            storage=self._storage,
        )
        trial.checkpoint_path = self._begin_from
        if self._tune.trial_name_creator is not None:
            trial.custom_name = str(self._tune.trial_name_creator(trial))
        make_folder = self._tune.trial_dirname_creator
        trial.folder = str(make_folder(trial)) if make_folder else trial.default_folder()
        if "/" in trial.folder:
            raise ValueError(
                f"trial_dirname_creator returned {trial.folder!r}: the name of a folder has no '/'."
            )
        if trial.folder in self._folders:  # two trials would write into the same files
            trial.folder = f"{trial.folder}_{trial_id}"
        self._folders.add(trial.folder)
        return trial

    # --- restoring ---

    def _settings(self, names: Names) -> dict[str, object]:
        return {
            "prefix": names.prefix,
            "trainable_name": self._name,
            "param_space": pickled(self._space),
            "tune_config": {name: pickled(value) for name, value in vars(self._tune).items()},
            "run_config": {name: pickled(value) for name, value in vars(self._run).items()},
            "resources_per_trial": pickled(self._resources_per_trial),
        }

    @classmethod
    def restore(
        cls,
        path: str,
        trainable: object,
        resume_unfinished: bool = True,
        resume_errored: bool = False,
        restart_errored: bool = False,
        param_space: Space | None = None,
        storage_filesystem: Any | None = None,
        _resume_config: ResumeConfig | None = None,
        _resources_per_trial: object = None,
    ) -> Tuner:
        """Return a tuner that goes on where a search ended.

        Args:
            path: Folder of the search, or a URI such as ``s3://bucket/dir/name``.
            trainable: As the search had.
            resume_unfinished: Trials that had not ended go on from their last checkpoint. False: they
                stay as they are.
            resume_errored: Failed trials go on from their last checkpoint.
            restart_errored: Failed trials begin anew.
            param_space: The space, where it holds values that must be made anew.
            storage_filesystem: A ``pyarrow.fs`` or fsspec filesystem that ``path`` is a path on.

        Raises:
            ValueError: There is no search in that folder (a ``FileNotFoundError``, too), both ways to go on
                after errors are asked for, the trainable has another name than that of the search, or the
                space other keys.
        """
        if resume_errored and restart_errored:
            raise ValueError("Pass one of resume_errored and restart_errored.")
        if not cls.can_restore(path, storage_filesystem):
            raise NoSearch(
                f"There is no search in {path}: {TUNER} or {JOURNAL} is missing. Give the folder of a "
                "search, which Tuner.fit() prints."
            )
        folder, storage = _located(path, storage_filesystem)
        settings, trials = read_settings(folder), read_trials(folder)
        former = unpickled(settings["param_space"], "param_space")
        if _resume_config is None:
            _check_same(trainable, settings.get("trainable_name"), param_space, former)
        resume = _resume_config or ResumeConfig(
            unfinished=ResumeType.RESUME if resume_unfinished else ResumeType.SKIP,
            errored=ResumeType.RESUME
            if resume_errored
            else ResumeType.RESTART
            if restart_errored
            else ResumeType.SKIP,
        )
        for trial in trials:
            trial.storage = storage
            _resume(trial, resume)
        kept = settings.get("resources_per_trial")
        resources = unpickled(kept, "resources_per_trial") if kept else None
        tuner = cls(
            trainable,
            param_space=param_space or former,
            tune_config=TuneConfig(**_fields(settings["tune_config"])),
            run_config=RunConfig(**_fields(settings["run_config"])),
            _restored=(folder, trials, settings),
            _resources_per_trial=_resources_per_trial or resources,
        )
        tuner._storage, tuner._restored_from = storage, os.fspath(path)
        tuner._grid = ResultGrid.of(
            trials,
            folder,
            tuner._tune.metric,
            tuner._tune.mode,
            tuner._run.checkpoint_config,
            storage,
        )
        return tuner

    @classmethod
    def can_restore(
        cls, path: str | os.PathLike[str], storage_filesystem: Any | None = None
    ) -> bool:
        """Return whether there is a search in that folder.

        Args:
            path: The folder, or its URI.
            storage_filesystem: A ``pyarrow.fs`` or fsspec filesystem that ``path`` is a path on.
        """
        filesystem, folder = resolve(os.fspath(path), storage_filesystem)
        if filesystem is not None:
            return has_search(ArrowStorage(folder, filesystem, False))
        return all(os.path.exists(os.path.join(folder, name)) for name in (TUNER, JOURNAL))

    def get_results(self) -> ResultGrid:
        """Return the results of the search that ran, or that was restored.

        Raises:
            RuntimeError: It did not run.
        """
        if self._grid is None:
            raise RuntimeError(
                "Can't return results as experiment has not been run, yet. Call fit()."
            )
        return self._grid


def _from_train(given: TrainRunConfig) -> RunConfig:
    """Return the search's configuration that one of a training run means; programs pass it to
    tuners, too.
    """
    callbacks: list[Any] = given.callbacks or []
    return RunConfig(
        name=given.name,
        storage_path=given.storage_path,
        storage_filesystem=given.storage_filesystem,
        failure_config=of_search(given.failure_config),
        checkpoint_config=of_search(given.checkpoint_config),
        sync_config=said(given.sync_config),
        verbose=said(given.verbose),
        stop=said(given.stop),
        callbacks=[one for one in callbacks if isinstance(one, Callback)],
        progress_reporter=said(given.progress_reporter),
        log_to_file=said(given.log_to_file, False),
    )


def _with_loggers(callbacks: list[Callback]) -> list[Callback]:
    """The callbacks, those that the environment names, and the loggers that a search has unasked."""
    wanted = _named_callbacks()
    if not core_settings.flag("TUNE_DISABLE_AUTO_CALLBACK_LOGGERS"):
        wanted.append(CSVLoggerCallback)
        if importlib.util.find_spec("tensorboardX") is not None:
            wanted.append(TBXLoggerCallback)
    return callbacks + [
        kind() for kind in wanted if not any(isinstance(one, kind) for one in callbacks)
    ]


def _named_callbacks() -> list[type[Callback]]:
    """The classes that ``RAY_TUNE_CALLBACKS`` names.

    Raises:
        ValueError: There is no such class, or it is not a callback.
    """
    found = []
    for path in core_settings.text("TUNE_CALLBACKS").split(","):
        module, _, name = path.strip().rpartition(".")
        if not name:
            continue
        try:
            kind = getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError, ValueError) as error:
            raise ValueError(f"RAY_TUNE_CALLBACKS names {path.strip()!r}: {error}") from error
        if not (isinstance(kind, type) and issubclass(kind, Callback)):
            raise ValueError(
                f"RAY_TUNE_CALLBACKS names {path.strip()!r}, which is not a tune.Callback."
            )
        found.append(kind)
    return found


def _named(*metrics: Any) -> tuple[str, ...]:
    """The metrics that each result must have: those by which the search, scheduler or searcher compares."""
    found: list[str] = []
    for metric in metrics:
        found += metric if isinstance(metric, list | tuple) else [metric]
    return tuple(dict.fromkeys(name for name in found if name not in (None, DEFAULT_METRIC)))


@contextlib.contextmanager
def _held(folder: str) -> Iterator[None]:
    """The folder is that of one search at a time."""
    try:
        lock = alone(folder)
    except FolderTaken as holder:
        raise ValueError(
            f"Another search uses {folder} ({holder}). Wait for its end, or choose another "
            "RunConfig(name=...)."
        ) from None
    except OSError as error:
        raise type(error)(
            error.errno,
            f"A search keeps its files in {folder}, which cannot be written ({error.strerror}): give "
            "RunConfig(storage_path=...) a folder that can",
        ) from error
    with lock:
        yield


def _located(
    path: str | os.PathLike[str], filesystem: Any | None
) -> tuple[str, ArrowStorage | None]:
    """The local folder of a search that is restored, and its storage where that is not a disk."""
    found, folder = resolve(os.fspath(path), filesystem)
    if found is None:
        return folder, None
    storage = ArrowStorage(folder.rstrip("/"), found, False)
    return fetch(storage), storage


def _is_below(folder: str, path: object) -> bool:
    return isinstance(path, str) and path.startswith(os.path.join(folder, ""))


def _as_search_error(error: Exception, folder: str) -> TuneError:
    """The error that the search ends with because of another one."""
    if isinstance(error, OSError) and _is_below(folder, error.filename):
        return TuneError(
            f"The search cannot write {error.filename}: {error.strerror}. Make it possible, and go "
            f"on with {_again(folder)}."
        )
    return search_error(error)(f"The search ended with {type(error).__name__}: {error}")


def _again(folder: str) -> str:
    return f"tune.Tuner.restore({folder!r}, trainable=...).fit()"


def _end_early(callbacks: CallbackList, search: Search) -> None:
    """Files are complete also when the search cannot go on."""
    for callback in callbacks:
        with contextlib.suppress(Exception):
            callback.on_experiment_end(trials=search.get_trials())


def _count(samples: int | None) -> int:
    """The number of samples that callbacks are told of; without end: a number that is never reached."""
    return sys.maxsize if samples is None or samples < 0 else samples


def _check_same(
    trainable: object, name: str | None, space: Space | None, former: Space | None
) -> None:
    """Raise ``ValueError`` where a search is to go on with something else than it began with."""
    given = trainable if isinstance(trainable, str) else name_of(trainable)
    if name is not None and given != name:
        raise ValueError(
            f"The search was begun with the trainable {name!r}, and trainable={given!r} has another name: "
            "give the same one."
        )
    if space is None or former is None:
        return
    keys, known = sorted(flattened(space)), sorted(flattened(former))
    if keys != known:
        raise ValueError(
            f"The search was begun with the space of {known}, and param_space has {keys}: only values may be "
            "given anew, such as objects that cannot be pickled."
        )


def _resume(trial: Trial, resume: ResumeConfig) -> None:
    """Set the state of a trial of a restored search."""
    if trial.status == TERMINATED:
        way = resume.finished
    elif trial.status == ERROR:
        way = resume.errored
    else:
        way = resume.unfinished
    if way == ResumeType.SKIP:
        if trial.status not in (TERMINATED, ERROR):
            trial.status = TERMINATED
        return
    trial.status, trial.error, trial.error_text, trial.num_failures = PENDING, None, "", 0
    trial.stopped_by = ""
    trial.checkpoint_count = len(trial.checkpoints)
    _forget_removed(trial)
    if way == ResumeType.RESTART:
        trial.checkpoint_path, trial.restore_iteration, trial.restore_total_s = None, 0, 0.0
        trial.restore_counts = {}


def _forget_removed(trial: Trial) -> None:
    """Go on from the latest checkpoint that is there, where later ones were removed from the disk."""
    if trial.storage is not None:
        return
    there = [pair for pair in trial.checkpoints if os.path.isdir(pair[0])]
    if len(there) == len(trial.checkpoints):
        return
    own = {path for path, _ in trial.checkpoints}
    trial.checkpoints = there
    if trial.checkpoint_path not in own or os.path.isdir(trial.checkpoint_path or ""):
        return  # it is of another trial, or the one to go on from
    path, report = there[-1] if there else (None, {})
    logger.warning(
        "%s was removed: %s goes on from %s.", trial.checkpoint_path, trial, path or "nothing"
    )
    trial.checkpoint_path = path
    trial.restore_iteration = int(report.get("training_iteration", 0))
    trial.restore_total_s = float(report.get("time_total_s", 0.0))
    trial.restore_counts = counts_of(report)


def _fields(pickles: dict[str, bytes]) -> dict[str, Any]:
    return {name: unpickled(data, name) for name, data in pickles.items()}


class _Interruptible:
    """Makes Ctrl-C a KeyboardInterrupt also where a program ignores it, as shells' background jobs do."""

    def __enter__(self) -> None:
        self._old: Any = None
        is_wanted = not core_settings.flag("TUNE_DISABLE_SIGINT_HANDLER")
        if is_wanted and threading.current_thread() is threading.main_thread():
            if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
                return
            self._old = signal.signal(signal.SIGINT, signal.default_int_handler)

    def __exit__(self, *error: object) -> None:
        if self._old is not None:
            signal.signal(signal.SIGINT, self._old)
