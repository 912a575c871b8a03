"""``SearchGenerator``: the trials that a searcher suggests for experiments."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from heliostat.tune.aliases import Config, Report
from heliostat.tune.error import ArgumentError
from heliostat.tune.search.search_algorithm import SearchAlgorithm
from heliostat.tune.search.searcher import Searcher
from heliostat.tune.search.variant_generator import experiment_tag, paths_of

if TYPE_CHECKING:
    from heliostat.tune.experiment import Experiment
    from heliostat.tune.runner.trial import Trial


class SearchGenerator(SearchAlgorithm):
    """Makes a trial of each suggestion of a searcher.

    Args:
        searcher: What suggests configurations.

    Raises:
        ValueError: ``searcher`` is not a ``Searcher``.

    Examples:
        >>> from ray import tune
        >>> from ray.tune.search import Searcher, SearchGenerator
        >>> class Down(Searcher):
        ...     def __init__(self):
        ...         super().__init__(metric="loss", mode="min")
        ...         self.x = 3
        ...     def suggest(self, trial_id):
        ...         self.x -= 1
        ...         return {"x": self.x}
        ...     def on_trial_complete(self, trial_id, result=None, error=False):
        ...         pass
        >>> config = tune.TuneConfig(search_alg=SearchGenerator(Down()), num_samples=2)
        >>> def objective(config):
        ...     tune.report({"loss": config["x"]})
        >>> run = tune.RunConfig(verbose=0)
        >>> results = tune.Tuner(objective, tune_config=config, run_config=run).fit()
        >>> results.get_best_result("loss", "min").config
        {'x': 1}
    """

    def __init__(self, searcher: Searcher) -> None:
        if not isinstance(searcher, Searcher):
            raise ArgumentError(f"searcher={searcher!r} must be a Searcher.")
        super().__init__()
        self.searcher = searcher

    @property
    def metric(self) -> Any:
        return self.searcher.metric

    def set_search_properties(
        self, metric: str | None, mode: str | None, config: Config, **spec: object
    ) -> bool:
        return self.searcher.set_search_properties(metric, mode, config, **spec)

    def _take(self, experiment: Experiment) -> int | None:
        count = experiment.arguments["num_samples"]
        return None if count < 0 else count

    def next_trial(self) -> Trial | None:
        if self.is_finished() or not self._experiments:
            return None
        trial_id = f"{self._prefix}_{self._number:05d}"
        suggestion = self.searcher.suggest(trial_id)
        if suggestion is None or suggestion == Searcher.FINISHED:
            self._is_finished = suggestion is not None
            return None
        assert isinstance(suggestion, dict)
        chosen = paths_of(suggestion)
        experiment = self._experiments[0]
        config = {**(experiment.arguments["config"] or {}), **suggestion}
        tag = experiment_tag(self._number + 1, paths_of(config))
        return self._made(experiment, config, chosen, trial_id, tag)

    def on_trial_result(self, trial_id: str, result: Report) -> None:
        self.searcher.on_trial_result(trial_id, result)

    def on_trial_complete(
        self, trial_id: str, result: Report | None = None, error: bool = False
    ) -> None:
        self.searcher.on_trial_complete(trial_id, result=result, error=error)

    def save_to_dir(self, dirpath: str, session_str: str = "default") -> None:
        """Write the searcher's state and this one's into files of a folder."""
        self.searcher.save_to_dir(os.fspath(dirpath), session_str)
        super().save_to_dir(dirpath, session_str)

    def restore_from_dir(self, dirpath: str) -> None:
        super().restore_from_dir(dirpath)
        self.searcher.restore_from_dir(dirpath)


__all__ = ["SearchGenerator"]
