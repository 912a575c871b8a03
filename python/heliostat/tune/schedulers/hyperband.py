"""HyperBand: successive halving in brackets that differ in how early they begin to halve."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from heliostat.tune.aliases import Report
from heliostat.tune.error import ArgumentError
from heliostat.tune.schedulers.comparing import ComparingScheduler
from heliostat.tune.schedulers.trial_scheduler import may_grow

if TYPE_CHECKING:
    from heliostat.tune.runner.search import Search
    from heliostat.tune.runner.trial import Trial


@dataclass
class _Bracket:
    """Trials that are halved together.

    Attributes:
        size: How many trials there may be now.
        milestone: How far each has to come before the next halving.
        halvings: How many are left.
        seats: How many more trials may come in; after the first halving none.
        results: The trials that are in it, with their last results.
        released: Ids of paused trials that may go on.
    """

    size: int
    milestone: float
    halvings: int
    seats: int
    results: dict[Trial, Report | None] = field(default_factory=dict)
    released: set[str] = field(default_factory=set)
    is_halving: bool = False

    @property
    def is_full(self) -> bool:
        return self.seats <= 0

    def text(self) -> str:
        states = Counter(trial.status for trial in self.results)
        counts = ", ".join(f"{state}: {count}" for state, count in sorted(states.items()))
        return f"Bracket(n={self.size}, r={self.milestone:g}): {{{counts}}}"


class HyperBandScheduler(ComparingScheduler):
    """Pauses trials at milestones and stops all but the best ``1 / reduction_factor`` of a bracket there.

    Trials are put into brackets in the order of their creation. The brackets of a round begin with few
    trials that run long, and end with many that are halved early. Trainables have to make checkpoints,
    or a paused trial begins anew.

    Args:
        time_attr: What counts as time, in results.
        metric: What trials are compared by. Default: what ``TuneConfig`` says.
        mode: "min" or "max".
        max_t: When a trial ends.
        reduction_factor: How sharp a halving is, and how far apart milestones are.
        stop_last_trials: Whether the last trials of a bracket end at ``max_t``.

    Raises:
        ValueError: ``max_t``, ``reduction_factor`` or ``mode`` makes no sense.

    Examples:
        >>> import ray
        >>> from ray.tune.schedulers import HyperBandScheduler
        >>> scheduler = HyperBandScheduler(max_t=81, reduction_factor=3)
    """

    # Paused trials that may go on come before new ones: a search without end would not halve otherwise.
    resumes_first = True

    hands_checkpoints = True

    def __init__(
        self,
        time_attr: str = "training_iteration",
        metric: str | None = None,
        mode: str | None = None,
        max_t: int = 81,
        reduction_factor: float = 3,
        stop_last_trials: bool = True,
    ) -> None:
        if max_t <= 0:
            raise ArgumentError(f"max_t={max_t!r} must be above 0.")
        if reduction_factor <= 1:
            raise ArgumentError(f"reduction_factor={reduction_factor!r} must be above 1.")
        super().__init__(time_attr, metric, mode)
        self._max_t, self._factor, self._stop_last = max_t, reduction_factor, stop_last_trials
        self._in_round = round(math.log(max_t) / math.log(reduction_factor)) + 1
        self._made = 0  # brackets, those without a milestone included
        self._brackets: list[_Bracket] = []
        self._bracket_of: dict[str, _Bracket] = {}
        self._stopped = 0

    # --- what the search says ---

    def on_trial_add(self, tune_controller: Search, trial: Trial) -> None:
        super().on_trial_add(tune_controller, trial)
        if trial.is_finished():
            return  # of a search that is restored
        while not self._brackets or self._brackets[-1].is_full:
            self._add_bracket()
        bracket = self._bracket_of[trial.trial_id] = self._brackets[-1]
        bracket.results[trial] = None
        bracket.seats -= 1

    def on_trial_result(self, tune_controller: Search, trial: Trial, result: Report) -> str:
        if self._time_attr not in result or self._metric not in result:
            return self.CONTINUE
        bracket = self._bracket_of[trial.trial_id]
        bracket.results[trial] = result
        bracket.released.discard(trial.trial_id)
        if self._goes_on(bracket, trial):
            return self.CONTINUE
        if bracket.halvings == 0:
            del bracket.results[trial]
            return self.STOP
        if not self._is_complete(tune_controller, bracket):
            return self._paused(tune_controller, trial)
        self._halve(tune_controller, bracket, trial)
        if trial not in bracket.results:
            return self.STOP
        return (
            self.CONTINUE if self._goes_on(bracket, trial) else self._paused(tune_controller, trial)
        )

    def on_trial_complete(self, tune_controller: Search, trial: Trial, result: Report) -> None:
        self.on_trial_remove(tune_controller, trial)

    def on_trial_error(self, tune_controller: Search, trial: Trial) -> None:
        self.on_trial_remove(tune_controller, trial)

    def on_trial_remove(self, tune_controller: Search, trial: Trial) -> None:
        bracket = self._bracket_of.get(trial.trial_id)
        if bracket is None or bracket.results.pop(trial, self) is self or bracket.is_halving:
            return
        # The trial may have been the one that the others waited for.
        if bracket.halvings and self._is_complete(tune_controller, bracket):
            self._halve(tune_controller, bracket, None)

    def choose_trial_to_run(self, tune_controller: Search) -> Trial | None:
        """Return a trial that begins, or was released, of the earliest bracket that has one."""
        for bracket in self._brackets:
            for trial in bracket.results:
                if trial.status == "PENDING" or (
                    trial.status == "PAUSED" and trial.trial_id in bracket.released
                ):
                    return trial
        return None

    def on_stall(self, tune_controller: Search) -> None:
        """Halve the brackets with the trials that they have, because nothing runs and nothing new comes."""
        for bracket in self._brackets:
            waits = any(trial.status == "PAUSED" for trial in bracket.results)
            if waits and bracket.halvings:
                self._halve(tune_controller, bracket, None)

    def state(self) -> dict[str, int]:
        """Return how many brackets there are, and how many trials were stopped."""
        return {"num_brackets": len(self._brackets), "num_stopped": self._stopped}

    def debug_string(self) -> str:
        count = len(self._brackets)
        head = f"Using HyperBand: num_stopped={self._stopped} total_brackets={count}"
        return "\n".join([head, *(f"  {bracket.text()}" for bracket in self._brackets)])

    # --- brackets ---

    def _halvings_of(self, place: int) -> int:
        """The number of halvings of the bracket at a place of a round."""
        return place

    def _add_bracket(self) -> None:
        halvings = self._halvings_of(self._made % self._in_round)
        self._made += 1
        milestone = int(self._max_t * self._factor**-halvings)
        if milestone > 0:
            size = math.ceil(self._in_round / (halvings + 1) * self._factor**halvings)
            self._brackets.append(_Bracket(size, milestone, halvings, seats=size))

    def _time(self, result: Report | None) -> float:
        return 0 if result is None else result[self._time_attr]

    def _goes_on(self, bracket: _Bracket, trial: Trial) -> bool:
        if bracket.halvings == 0 and not self._stop_last:
            return True
        return self._time(bracket.results[trial]) < bracket.milestone

    def _is_complete(self, controller: Search, bracket: _Bracket) -> bool:
        """Whether nobody is missing, and all have come to the milestone."""
        if not bracket.results or (may_grow(controller) and not bracket.is_full):
            return False
        return not any(self._goes_on(bracket, trial) for trial in bracket.results)

    def _halve(self, controller: Search, bracket: _Bracket, current: Trial | None) -> None:
        """Keep the best, let go on who has not come to the next milestone."""
        bracket.halvings, bracket.seats = bracket.halvings - 1, 0
        bracket.size = math.ceil(bracket.size / self._factor)
        bracket.milestone = int(min(bracket.milestone * self._factor, self._max_t))
        ranked = sorted(bracket.results, key=lambda trial: self._score(bracket.results[trial]))
        ended = ranked[: -bracket.size]
        self._stopped += len(ended)
        if bracket.halvings == 0 and self._stop_last:
            ended += [one for one in ranked[-bracket.size :] if not self._goes_on(bracket, one)]
        bracket.is_halving = True
        for trial in ended:
            del bracket.results[trial]
            if trial is not current:
                controller.stop_trial(trial)
        bracket.is_halving = False
        for trial in bracket.results:
            if trial is not current and self._goes_on(bracket, trial):
                bracket.released.add(trial.trial_id)
                self._released(controller, trial)

    def _score(self, result: Report | None) -> float:
        """The metric, the higher the better; NaN is the worst."""
        value = float("nan") if result is None else float(result[self._metric or ""])
        if math.isnan(value):
            return -math.inf
        return value if self._mode == "max" else -value

    def _paused(self, controller: Search, trial: Trial) -> str:
        return self.PAUSE

    def _released(self, controller: Search, trial: Trial) -> None:
        """A paused trial may go on."""


class HyperBandForBOHB(HyperBandScheduler):
    """HyperBand as BOHB needs it: large brackets first, and the budget of each milestone in results.

    Use it with ``TuneBOHB``, which learns from the results at milestones.

    Examples:
        >>> from ray import tune
        >>> from ray.tune.schedulers import HyperBandForBOHB
        >>> scheduler = HyperBandForBOHB(time_attr="training_iteration", max_t=27)
        >>> def search(objective, space):
        ...     from ray.tune.search.bohb import TuneBOHB
        ...     config = tune.TuneConfig(
        ...         metric="loss", mode="min", scheduler=scheduler, search_alg=TuneBOHB(), num_samples=20
        ...     )
        ...     return tune.Tuner(objective, param_space=space, tune_config=config).fit()
    """

    def _halvings_of(self, place: int) -> int:
        return self._in_round - place - 1

    def on_trial_result(self, tune_controller: Search, trial: Trial, result: Report) -> str:
        result["hyperband_info"] = {}
        bracket = self._bracket_of.get(trial.trial_id)
        reached = bracket.milestone if bracket is not None else math.inf
        if result.get(self._time_attr, 0) >= reached:
            result["hyperband_info"]["budget"] = reached
        return super().on_trial_result(tune_controller, trial, result)

    def _is_complete(self, controller: Search, bracket: _Bracket) -> bool:
        """The searcher fills a bracket: it learns from those that are paused already."""
        return bracket.is_full and super()._is_complete(controller, bracket)

    def _paused(self, controller: Search, trial: Trial) -> str:
        if controller.searcher is not None:
            controller.searcher.on_pause(trial.trial_id)
        return self.PAUSE

    def _released(self, controller: Search, trial: Trial) -> None:
        if controller.searcher is not None:
            controller.searcher.on_unpause(trial.trial_id)
