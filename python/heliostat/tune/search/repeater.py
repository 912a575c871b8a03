"""``Repeater``: each configuration of a searcher several times, for trainables whose results vary."""

from __future__ import annotations

import copy
import math
import statistics
from dataclasses import dataclass, field

from heliostat.tune.aliases import Config, Report, State
from heliostat.tune.search.searcher import Searcher

TRIAL_INDEX = "__trial_index__"


@dataclass
class _Group:
    """Trials of one configuration; the searcher knows the first."""

    first: str
    config: Config
    scores: dict[str, float | None] = field(default_factory=dict)


class Repeater(Searcher):
    """Runs each suggestion of a searcher several times, and tells it the mean of the results.

    ``num_samples`` counts all trials: 15 with ``repeat=5`` are three suggestions. The searcher does not
    hear of a suggestion that was not tried ``repeat`` times.

    Args:
        searcher: The searcher.
        repeat: How many trials each suggestion has.
        set_index: Whether the configuration has the number of the repetition as ``__trial_index__``, for
            seeds.

    Raises:
        ValueError: ``repeat`` is below 1.

    Examples:
        >>> from ray.tune.search import Repeater, Searcher
        >>> class Counting(Searcher):
        ...     def __init__(self):
        ...         super().__init__(metric="loss", mode="min")
        ...         self.x = 0
        ...     def suggest(self, trial_id):
        ...         self.x += 1
        ...         return {"x": self.x}
        ...     def on_trial_complete(self, trial_id, result=None, error=False):
        ...         pass
        >>> twice = Repeater(Counting(), repeat=2, set_index=False)
        >>> twice.suggest("a"), twice.suggest("b"), twice.suggest("c")
        ({'x': 1}, {'x': 1}, {'x': 2})
    """

    def __init__(self, searcher: Searcher, repeat: int = 1, set_index: bool = True) -> None:
        if repeat < 1:
            raise ValueError(f"repeat={repeat!r} must be a whole number from 1 up.")
        super().__init__(searcher.metric, searcher.mode)
        self.searcher, self.repeat, self._set_index = searcher, repeat, set_index
        self._group: _Group | None = None
        self._group_of: dict[str, _Group] = {}

    def set_search_properties(
        self, metric: str | None, mode: str | None, config: Config, **spec: object
    ) -> bool:
        taken = self.searcher.set_search_properties(metric, mode, config, **spec)
        self._metric = self.searcher.metric or self._metric or metric
        self._mode = self.searcher.mode or self._mode or mode
        return taken

    def suggest(self, trial_id: str) -> Config | str | None:
        if self._group is None or len(self._group.scores) == self.repeat:
            suggestion = self.searcher.suggest(trial_id)
            if not isinstance(suggestion, dict):
                return suggestion
            self._group = _Group(trial_id, suggestion)
        group = self._group_of[trial_id] = self._group
        config = copy.deepcopy(group.config)
        if self._set_index:
            config[TRIAL_INDEX] = len(group.scores)
        group.scores[trial_id] = None
        return config

    def on_trial_complete(
        self, trial_id: str, result: Report | None = None, error: bool = False
    ) -> None:
        group = self._group_of.pop(trial_id, None)
        if group is None:
            return
        metric = self.searcher.metric or self._metric
        group.scores[trial_id] = float((result or {}).get(metric, math.nan))
        scores = [score for score in group.scores.values() if score is not None]
        if len(scores) < self.repeat:
            return
        known = [score for score in scores if not math.isnan(score)]
        mean = statistics.fmean(known) if known else math.nan
        failed = error and not known
        self.searcher.on_trial_complete(group.first, result={metric: mean}, error=failed)

    def set_max_concurrency(self, max_concurrent: int) -> bool:
        return False

    def get_state(self) -> State:
        own = {name: value for name, value in vars(self).items() if name != "searcher"}
        return {"own": own, "inner": self.searcher.get_state()}

    def set_state(self, state: State) -> None:
        self.searcher.set_state(state["inner"])
        vars(self).update(state["own"])


__all__ = ["TRIAL_INDEX", "Repeater"]
