"""PB2: population based training whose hyperparameters are chosen by a model of what they gained."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from heliostat.tune.aliases import Config, Space
from heliostat.tune.error import TuneError
from heliostat.tune.schedulers.pbt import PopulationBasedTraining

if TYPE_CHECKING:
    from heliostat.tune.runner.trial import Trial

KEPT_MAX = 1000  # judgements, the oldest of which are forgotten


class _Judgement(NamedTuple):
    trial_id: str
    time: float
    values: tuple[float, ...]
    score: float


class PB2(PopulationBasedTraining):
    """Population based training that learns which hyperparameters gain most, and when.

    A trial of the lower quantile takes over checkpoint and configuration of one of the upper quantile, as
    in PBT. Its hyperparameters are those for which a Gaussian process promises the largest gain in the next
    interval; the process knows what each trial gained so far, at which time, from which score on.

    Args:
        time_attr: What counts as time, in results. Default: ``time_total_s``.
        metric: What trials are compared by. Default: what ``TuneConfig`` says.
        mode: "min" or "max".
        perturbation_interval: A trial is judged after so much time, in units of ``time_attr``.
        hyperparam_bounds: For each name ``[lowest, highest]``, or a dict of these. Names that the search
            space lacks are drawn between them.
        quantile_fraction: How large both quantiles are, from 0 to 0.5.
        log_config: Whether the policy's files are written.
        require_attrs: Raise when a result lacks ``time_attr`` or ``metric``; False: let it pass.
        synch: Judge all trials at once when each has come to the same time.
        custom_explore_fn: A function of the changed configuration that returns the one to use.

    Raises:
        TuneError: ``hyperparam_bounds`` is empty.
        ValueError: Bounds are not a pair of a lower and a higher number, or another argument makes no sense.
    """

    def __init__(
        self,
        time_attr: str = "time_total_s",
        metric: str | None = None,
        mode: str | None = None,
        perturbation_interval: float = 60.0,
        hyperparam_bounds: Space | None = None,
        quantile_fraction: float = 0.25,
        log_config: bool = True,
        require_attrs: bool = True,
        synch: bool = False,
        custom_explore_fn: Callable[[Config], Config] | None = None,
    ) -> None:
        if not hyperparam_bounds:
            raise TuneError("`hyperparam_bounds` must be specified to use PB2 scheduler.")
        self._bounds = _flat_bounds(hyperparam_bounds)
        super().__init__(
            time_attr=time_attr,
            metric=metric,
            mode=mode,
            perturbation_interval=perturbation_interval,
            hyperparam_mutations=hyperparam_bounds,
            quantile_fraction=quantile_fraction,
            resample_probability=0.0,
            custom_explore_fn=custom_explore_fn,
            log_config=log_config,
            require_attrs=require_attrs,
            synch=synch,
        )
        self._judged: list[_Judgement] = []
        # Values that were chosen since the last judgement, so that two copies do not get the same.
        self._chosen: list[tuple[float, ...]] = []

    def _complete(self, trial: Trial) -> None:
        import numpy as np

        for path, (low, high) in self._bounds.items():
            inner = trial.config
            *way, last = path
            for key in way:
                inner = inner.setdefault(key, {})
            if last not in inner:
                value = inner[last] = float(np.random.uniform(low, high))
                trial.evaluated_params["/".join(path)] = value

    def _note(self, trial: Trial, time: float, score: float) -> None:
        self._judged.append(_Judgement(trial.trial_id, time, self._values(trial), score))
        del self._judged[:-KEPT_MAX]
        self._chosen.clear()

    def _values(self, trial: Trial) -> tuple[float, ...]:
        return tuple(float(_at(trial.config, path)) for path in self._bounds)

    def _new_config(self, trial: Trial, best: Trial) -> Config:
        from heliostat.tune.schedulers.gaussian_process import best_gain

        config = copy.deepcopy(best.config)
        gains = _gains(self._judged)
        state = self._states[best.trial_id]
        last = next((one for one in reversed(gains) if one[0] == best.trial_id), None)
        if last is not None:
            found = best_gain(
                [one[1] for one in gains],
                [one[2] for one in gains],
                [state.trained_to, float(state.score or 0.0)],
                list(self._bounds.values()),
                self._chosen,
            )
            for path, value in zip(self._bounds, found, strict=True):
                _put(config, path, value)
            self._chosen.append(tuple(found))
        if self._custom is not None:
            config = self._custom(config)
            if config is None:
                raise TuneError(
                    "custom_explore_fn returned None: it has to return a configuration."
                )
        values = tuple(float(_at(config, path)) for path in self._bounds)
        # The copy gains from where the original is.
        score = float(state.score or 0.0)
        self._judged.append(_Judgement(trial.trial_id, state.trained_to, values, score))
        return config

    def debug_string(self) -> str:
        return f"PB2: {self._saves} checkpoints, {self._perturbations} perturbs"


def _gains(judged: list[_Judgement]) -> list[tuple[str, list[float], float]]:
    """Return the gain per time of each trial: its id; time, score before and hyperparameters; the
    gain.
    """
    before: dict[str, _Judgement] = {}
    gains = []
    for one in judged:
        earlier = before.get(one.trial_id)
        before[one.trial_id] = one
        if earlier is None or earlier.values != one.values or one.time <= earlier.time:
            continue
        gain = (one.score - earlier.score) / (one.time - earlier.time)
        if gain == gain:
            gains.append((one.trial_id, [one.time, earlier.score, *one.values], gain))
    return gains


def _flat_bounds(bounds: Mapping[str, Any]) -> dict[tuple[str, ...], tuple[float, float]]:
    flat: dict[tuple[str, ...], tuple[float, float]] = {}
    for name, value in bounds.items():
        if isinstance(value, Mapping):
            flat.update({(name, *path): pair for path, pair in _flat_bounds(value).items()})
            continue
        if not isinstance(value, list | tuple) or len(value) != 2 or not value[0] <= value[1]:
            raise ValueError(
                f"hyperparam_bounds[{name!r}]={value!r} must be [lowest, highest], or a dict of these."
            )
        flat[(name,)] = (float(value[0]), float(value[1]))
    return flat


def _at(config: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    value: Any = config
    for key in path:
        value = value[key]
    return value


def _put(config: Config, path: tuple[str, ...], value: float) -> None:
    """Whole numbers stay whole."""
    inner: Any = config
    *way, last = path
    for key in way:
        inner = inner[key]
    inner[last] = round(value) if isinstance(inner[last], int) else value
