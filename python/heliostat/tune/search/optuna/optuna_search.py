"""A search that asks one of Optuna's samplers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from heliostat.core.platform.extras import required
from heliostat.tune.aliases import Config, Report, Space
from heliostat.tune.search.sample import Categorical, Domain, Float, Integer
from heliostat.tune.search.searcher import UNDEFINED_METRIC_MODE, UNDEFINED_SEARCH_SPACE, Searcher
from heliostat.tune.search.variant_generator import Path, flat_name, nested, unresolved

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.trial import Trial

DIRECTIONS = {"min": "minimize", "max": "maximize"}


class OptunaSearch(Searcher):
    """Ask and tell an Optuna study.

    Args:
        space: A dict of Optuna distributions by name, or a function of an Optuna trial that suggests
            values and may return constants. Default: ``param_space`` of the tuner.
        metric: What is optimized; a list of names for several.
        mode: "min" or "max"; a list for several.
        points_to_evaluate: Configurations to begin with.
        sampler: One of Optuna's. Default: ``TPESampler``.
        study_name, storage: Of the study, which is in memory by default.
        seed: Of the default sampler.
        evaluated_rewards: Results of ``points_to_evaluate`` that are known already.

    Raises:
        ImportError: The package optuna is not installed.
    """

    def __init__(
        self,
        space: object = None,
        metric: str | list[str] | None = None,
        mode: str | list[str] | None = None,
        points_to_evaluate: list[Config] | None = None,
        sampler: object = None,
        study_name: str | None = None,
        storage: object = None,
        seed: int | None = None,
        evaluated_rewards: list[float | Sequence[float]] | None = None,
    ) -> None:
        optuna = required("optuna", "OptunaSearch")
        super().__init__(metric, mode)
        if isinstance(space, Mapping) and any(True for _ in unresolved(space)):
            space = distributions(space)
        self._space: Any = space
        self._points = list(points_to_evaluate or [])
        self._rewards = list(evaluated_rewards or [])
        if len(self._rewards) > len(self._points):
            raise ValueError(
                f"evaluated_rewards has {len(self._rewards)} results for {len(self._points)} "
                "points_to_evaluate: give no more than there are points."
            )
        self._sampler = sampler or optuna.samplers.TPESampler(seed=seed)
        self._study_name, self._storage = study_name or "optuna", storage
        # Programs take the study from here by Ray's name, to plot it.
        self._ot_study: Any = None
        self._trials: dict[str, Trial] = {}
        if self._space is not None and metric and mode:
            self._begin()

    def set_search_properties(
        self, metric: str | None, mode: str | None, config: Config, **spec: object
    ) -> bool:
        if self._space is not None and next(unresolved(config), None) is not None:
            return False
        if self._space is None:
            self._space = distributions(config)
        self._metric, self._mode = self._metric or metric, self._mode or mode
        if self._ot_study is None and self._metric and self._mode:
            self._begin()
        return True

    @staticmethod
    def convert_search_space(spec: Space) -> dict[str, BaseDistribution]:
        """Return Optuna's distributions for the domains of a space, by names such as ``optimizer/lr``.

        Raises:
            ValueError: The space has a grid, or a domain that Optuna has no distribution for.
        """
        return distributions(spec)

    def _begin(self) -> None:
        import optuna

        several = isinstance(self._metric, list)
        modes = self._mode if isinstance(self._mode, list) else [self._mode]
        if several and len(modes) == 1:
            modes *= len(self._metric)
        storage = self._storage or optuna.storages.InMemoryStorage()
        self._ot_study = optuna.create_study(
            storage=storage,
            sampler=self._sampler,
            study_name=self._study_name,
            directions=[DIRECTIONS[mode] for mode in modes],
            load_if_exists=True,
        )
        for index, point in enumerate(self._points):
            if index < len(self._rewards):
                self.add_evaluated_point(point, self._rewards[index])
            else:
                self._ot_study.enqueue_trial(point)

    def suggest(self, trial_id: str) -> Config | str | None:
        if self._space is None or self._space == {}:
            raise RuntimeError(UNDEFINED_SEARCH_SPACE.format(cls="OptunaSearch", space="space"))
        if self._ot_study is None:
            raise RuntimeError(
                UNDEFINED_METRIC_MODE.format(
                    cls="OptunaSearch", metric=self._metric, mode=self._mode
                )
            )
        if callable(self._space):
            trial = self._trials[trial_id] = self._ot_study.ask()
            constants = self._space(trial)
            if constants is not None and not isinstance(constants, Mapping):
                raise TypeError(
                    "The function that defines the space must return a dict of constants or None, "
                    f"not {type(constants).__name__}."
                )
            return nested({**trial.params, **(constants or {})})
        trial = self._trials[trial_id] = self._ot_study.ask(fixed_distributions=self._space)
        return nested(trial.params)

    def on_trial_result(self, trial_id: str, result: Report) -> None:
        trial = self._trials.get(trial_id)
        if trial is None or isinstance(self._metric, list) or self._metric not in result:
            return  # Optuna keeps no intermediate values of several objectives
        trial.report(result[self._metric], result.get("training_iteration", 0))

    def on_trial_complete(
        self, trial_id: str, result: Report | None = None, error: bool = False
    ) -> None:
        import optuna

        trial = self._trials.pop(trial_id, None)
        if trial is None:
            return
        names = self._metric if isinstance(self._metric, list) else [self._metric]
        values = [result[name] for name in names if name in result] if result else []
        if error or len(values) < len(names) or any(value != value for value in values):
            self._ot_study.tell(trial, state=optuna.trial.TrialState.FAIL)
        else:
            self._ot_study.tell(trial, values)

    def add_evaluated_point(
        self,
        parameters: Config,
        value: float | Sequence[float],
        error: bool = False,
        pruned: bool = False,
        intermediate_values: list[float] | None = None,
    ) -> None:
        import optuna

        if callable(self._space):
            raise TypeError("A space that a function defines takes no evaluated points.")
        states = optuna.trial.TrialState
        state = states.FAIL if error else states.PRUNED if pruned else states.COMPLETE
        made = optuna.trial.create_trial(
            state=state,
            value=None if error or isinstance(value, list | tuple) else value,
            values=list(value) if isinstance(value, list | tuple) else None,
            params=parameters,
            distributions=self._space,
            intermediate_values=dict(enumerate(intermediate_values or [])),
        )
        self._ot_study.add_trial(made)


def distributions(space: Mapping[str, object]) -> dict[str, BaseDistribution]:
    """Optuna's distributions for the domains in a space.

    Raises:
        ValueError: A domain, or a grid, has no counterpart.
    """
    return {flat_name(path): _distribution(path, domain) for path, domain in unresolved(space)}


def _distribution(path: Path, domain: object) -> BaseDistribution:
    from optuna import distributions as kinds

    name = flat_name(path)
    if not isinstance(domain, Domain):
        raise ValueError(
            f"{name!r} is a grid, which no searcher samples: use tune.choice(...) instead."
        )
    if isinstance(domain, Categorical):
        return kinds.CategoricalDistribution(domain.categories)
    if isinstance(domain, Float) and domain.bell is None:
        step = None if domain.is_log else domain.step
        return kinds.FloatDistribution(domain.lower, domain.upper, log=domain.is_log, step=step)
    if isinstance(domain, Integer):
        # Optuna includes the upper bound.
        upper = int(domain.upper) - (1 if domain.step in (None, 1) else 0)
        step = 1 if domain.is_log else int(domain.step or 1)
        return kinds.IntDistribution(int(domain.lower), upper, log=domain.is_log, step=step)
    raise ValueError(f"Optuna has no distribution for {name!r}, {domain.domain_str}.")
