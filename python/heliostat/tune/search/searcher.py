"""The base of searchers, which suggest configurations and learn from their results."""

from __future__ import annotations

import os
import pickle
from typing import Any

from heliostat.tune.aliases import Config, Report, State
from heliostat.tune.error import ArgumentError
from heliostat.tune.state_files import newest_state

UNDEFINED_METRIC_MODE = (
    "Trying to sample a configuration from {cls}, but the `metric` ({metric}) or `mode` ({mode}) parameters "
    "have not been set. Pass them to `tune.TuneConfig()` or to the search algorithm."
)
UNDEFINED_SEARCH_SPACE = (
    "Trying to sample a configuration from {cls}, but no search space has been defined. Pass the `{space}` "
    "argument to the search algorithm, or `param_space` to `tune.Tuner()`."
)


class Searcher:
    """Base of search algorithms: ``suggest`` a configuration, hear what came of it.

    Args:
        metric: What is optimized. Default: what ``TuneConfig`` says.
        mode: "min" or "max".

    Raises:
        ValueError: ``metric`` or ``mode`` makes no sense.

    Examples:
        >>> from ray import tune
        >>> class Halving(tune.search.Searcher):
        ...     def __init__(self):
        ...         super().__init__(metric="loss", mode="min")
        ...         self.lr = 1.0
        ...     def suggest(self, trial_id):
        ...         return {"lr": self.lr}
        ...     def on_trial_complete(self, trial_id, result=None, error=False):
        ...         self.lr /= 2
        >>> searcher = Halving()
        >>> searcher.on_trial_complete("trial_1", {"loss": 0.3})
        >>> searcher.suggest("trial_2")
        {'lr': 0.5}
        >>> config = tune.TuneConfig(search_alg=searcher, num_samples=4)
    """

    FINISHED = "FINISHED"
    CKPT_FILE_TMPL = "searcher-state-{}.pkl"

    def __init__(self, metric: Any = None, mode: Any = None) -> None:
        several = isinstance(metric, list | tuple), isinstance(mode, list | tuple)
        is_named = isinstance(metric, str) or several[0]
        if metric is not None and not is_named:
            raise ArgumentError(
                f"metric={metric!r} must be the name of a metric, or a list of them."
            )
        if metric is not None and mode is not None and several[1] and several != (True, True):
            raise ArgumentError(f"mode={mode!r} is a list: pass a list of as many metrics.")
        if all(several) and len(metric) != len(mode):
            raise ArgumentError(f"mode={mode!r} must have one entry for each of {list(metric)}.")
        modes = mode if several[1] else [mode]
        if any(one not in ("min", "max", None) for one in modes):
            raise ArgumentError(f"`mode` must be 'min' or 'max', not {mode!r}.")
        self._metric, self._mode = metric, mode

    @property
    def metric(self) -> Any:
        """The metric that is optimized."""
        return self._metric

    @property
    def mode(self) -> Any:
        """ "min" or "max"."""
        return self._mode

    def set_search_properties(
        self, metric: str | None, mode: str | None, config: Config, **spec: object
    ) -> bool:
        """Take over what was not said at construction.

        Args:
            metric: What is optimized.
            mode: "min" or "max".
            config: The search space.
            **spec: More about the search.

        Returns:
            Whether it was taken.
        """
        return False

    def suggest(self, trial_id: str) -> Config | str | None:
        """Return a configuration, ``None`` for not yet, or ``Searcher.FINISHED``. To be implemented.

        Args:
            trial_id: The trial that it is for.
        """
        raise NotImplementedError

    def on_trial_result(self, trial_id: str, result: Report) -> None:
        """Called when a trial has reported.

        Args:
            trial_id: The trial.
            result: What it reported, with what is added to it.
        """

    def on_trial_complete(
        self, trial_id: str, result: Report | None = None, error: bool = False
    ) -> None:
        """Called when a trial has ended.

        Args:
            trial_id: The trial.
            result: Its last result, if there is one.
            error: The trial failed. Default False.
        """

    def add_evaluated_point(
        self,
        parameters: Config,
        value: float,
        error: bool = False,
        pruned: bool = False,
        intermediate_values: list[float] | None = None,
    ) -> None:
        """Learn from a result that was had elsewhere. Not every searcher can.

        Args:
            parameters: The configuration.
            value: The metric's value.
            error: The trial failed. Default False.
            pruned: It was stopped early. Default False.
            intermediate_values: The values before. Default: none.

        Raises:
            NotImplementedError: This searcher cannot.
        """
        raise NotImplementedError

    def add_evaluated_trials(self, trials_or_analysis: object, metric: str) -> None:
        """Learn from trials of another search.

        Args:
            trials_or_analysis: A trial, a list of them, or an ``ExperimentAnalysis``.
            metric: The name of what is optimized.

        Raises:
            NotImplementedError: The searcher cannot, or this is something else.
        """
        if type(self).add_evaluated_point is Searcher.add_evaluated_point:
            raise NotImplementedError(f"{type(self).__name__} learns from its own trials alone.")
        trials = getattr(trials_or_analysis, "trials", trials_or_analysis)
        if hasattr(trials, "trial_id"):
            trials = [trials]
        if not isinstance(trials, list | tuple):
            raise NotImplementedError(
                f"trials_or_analysis={trials_or_analysis!r} must be a trial, a list of trials or an "
                "ExperimentAnalysis."
            )
        for trial in trials:
            values = [row[metric] for row in trial.results() if metric in row]
            if not values:
                continue
            is_pruned = trial.status == "TERMINATED" and bool(trial.stopped_by)
            self.add_evaluated_point(
                parameters=trial.config,
                value=values[-1],
                error=trial.status == "ERROR",
                pruned=is_pruned,
                intermediate_values=values,
            )

    def on_pause(self, trial_id: str) -> None:
        """Called when a trial is paused at a milestone, by ``HyperBandForBOHB``.

        Args:
            trial_id: The trial.
        """

    def on_unpause(self, trial_id: str) -> None:
        """Called when a paused trial goes on.

        Args:
            trial_id: The trial.
        """

    def set_max_concurrency(self, max_concurrent: int) -> bool:
        """Have the searcher itself keep to so many trials at a time.

        Args:
            max_concurrent: The number.

        Returns:
            Whether it does.
        """
        return False

    def get_state(self) -> State:
        """Return the state that ``set_state`` takes."""
        return self.__dict__.copy()

    def set_state(self, state: State) -> None:
        """Go on from an earlier state.

        Args:
            state: What ``get_state`` returned.
        """
        self.__dict__.update(state)

    def save(self, checkpoint_path: str) -> None:
        """Write the state into a file.

        Args:
            checkpoint_path: The file.
        """
        from heliostat import cloudpickle

        part = f"{checkpoint_path}.part"
        with open(part, "wb") as file:
            cloudpickle.dump(self.get_state(), file)
        os.replace(part, checkpoint_path)

    def restore(self, checkpoint_path: str) -> None:
        """Read what ``save`` wrote.

        Args:
            checkpoint_path: The file.
        """
        with open(checkpoint_path, "rb") as file:
            self.set_state(pickle.load(file))

    def save_to_dir(self, checkpoint_dir: str, session_str: str = "default") -> None:
        """Write the state into a file of a folder.

        Args:
            checkpoint_dir: The folder.
            session_str: A part of the file's name. Default ``"default"``.
        """
        self.save(os.path.join(checkpoint_dir, self.CKPT_FILE_TMPL.format(session_str)))

    def restore_from_dir(self, checkpoint_dir: str) -> None:
        """Read what ``save_to_dir`` wrote last.

        Args:
            checkpoint_dir: The folder.

        Raises:
            RuntimeError: The folder has none.
        """
        found = newest_state(checkpoint_dir, self.CKPT_FILE_TMPL)
        if found is None:
            raise RuntimeError(f"There is no searcher's state in {checkpoint_dir}.")
        self.restore(found)


class ConcurrencyLimiter(Searcher):
    """Lets a searcher have so many open suggestions at a time.

    Args:
        searcher: The searcher.
        max_concurrent: How many suggestions may be without a result.
        batch: Suggest again only when all of them have one.

    Raises:
        ValueError: ``max_concurrent`` is below 1.
        TypeError: ``searcher`` is not a ``Searcher``.

    Examples:
        >>> from ray import tune
        >>> from ray.tune.search import ConcurrencyLimiter, Searcher
        >>> class Counting(Searcher):
        ...     def __init__(self):
        ...         super().__init__(metric="loss", mode="min")
        ...         self.x = 0
        ...     def suggest(self, trial_id):
        ...         self.x += 1
        ...         return {"x": self.x}
        ...     def on_trial_complete(self, trial_id, result=None, error=False):
        ...         pass
        >>> limited = ConcurrencyLimiter(Counting(), max_concurrent=1)
        >>> limited.suggest("a"), limited.suggest("b")  # the second waits for the first one's result
        ({'x': 1}, None)
    """

    def __init__(self, searcher: Searcher, max_concurrent: int, batch: bool = False) -> None:
        most: object = max_concurrent
        if not isinstance(most, int) or most < 1:
            raise ArgumentError(
                f"max_concurrent={max_concurrent!r} must be a whole number from 1 up."
            )
        if not isinstance(searcher, Searcher):
            raise TypeError(f"{searcher!r} is not a Searcher.")
        super().__init__(searcher.metric, searcher.mode)
        self.searcher, self.max_concurrent, self.batch = searcher, max_concurrent, batch
        self._is_limited_there = searcher.set_max_concurrency(max_concurrent)
        self._open: set[str] = set()
        self._waiting: dict[str, tuple[Report | None, bool]] = {}

    @property
    def live_trials(self) -> set[str]:
        """Ids of the trials whose suggestions are without a result."""
        return set(self._open)

    def set_search_properties(
        self, metric: str | None, mode: str | None, config: Config, **spec: object
    ) -> bool:
        taken = self.searcher.set_search_properties(metric, mode, config, **spec)
        self._metric, self._mode = self.searcher.metric, self.searcher.mode
        return taken

    def suggest(self, trial_id: str) -> Config | str | None:
        if self._is_limited_there:
            return self.searcher.suggest(trial_id)
        if len(self._open) >= self.max_concurrent or (self.batch and self._waiting):
            return None
        suggestion = self.searcher.suggest(trial_id)
        if suggestion not in (None, Searcher.FINISHED):
            self._open.add(trial_id)
        return suggestion

    def on_trial_result(self, trial_id: str, result: Report) -> None:
        self.searcher.on_trial_result(trial_id, result)

    def on_trial_complete(
        self, trial_id: str, result: Report | None = None, error: bool = False
    ) -> None:
        if not self.batch or self._is_limited_there:
            self._open.discard(trial_id)
            return self.searcher.on_trial_complete(trial_id, result=result, error=error)
        self._waiting[trial_id] = (result, error)
        if len(self._waiting) < min(self.max_concurrent, len(self._open)):
            return None
        for ended, (last, failed) in self._waiting.items():
            self.searcher.on_trial_complete(ended, result=last, error=failed)
            self._open.discard(ended)
        self._waiting.clear()
        return None

    def on_pause(self, trial_id: str) -> None:
        self.searcher.on_pause(trial_id)

    def on_unpause(self, trial_id: str) -> None:
        self.searcher.on_unpause(trial_id)

    def get_state(self) -> State:
        return {"inner": self.searcher.get_state(), "open": set()}

    def set_state(self, state: State) -> None:
        self.searcher.set_state(state["inner"])
