"""A search that asks the model of HpBandSter's BOHB."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from heliostat.tune.aliases import Config, Report
from heliostat.tune.search.library import Asked, LibrarySearcher, plain, unknown_domain
from heliostat.tune.search.sample import Categorical, Domain, Float, Integer

logger = logging.getLogger("heliostat")


class _Job(NamedTuple):
    """A result as HpBandSter reads it."""

    result: dict[str, float]
    kwargs: dict[str, object]
    exception: None = None


class TuneBOHB(LibrarySearcher):
    """BOHB: a model of good configurations for each budget. Use it with ``HyperBandForBOHB``.

    Args:
        space: A ``ConfigSpace.ConfigurationSpace``, or a dict with Tune's domains. Default: ``param_space``
            of the tuner.
        bohb_config: Options of HpBandSter's ``BOHB``.
        metric: What is optimized. Default: what ``TuneConfig`` says.
        mode: "min" or "max".
        points_to_evaluate: Configurations to begin with.
        seed: Of the space.
        max_concurrent: How many trials may run at a time, those that are paused not counted; 0: as many as
            fit.

    Raises:
        ImportError: hpbandster or ConfigSpace is not installed.
    """

    modules = ("hpbandster.optimizers.config_generators.bohb", "ConfigSpace")

    def __init__(
        self,
        space: object = None,
        bohb_config: Mapping[str, object] | None = None,
        metric: str | None = None,
        mode: str | None = None,
        points_to_evaluate: list[Config] | None = None,
        seed: int | None = None,
        max_concurrent: int = 0,
    ) -> None:
        super().__init__(space, metric, mode, points_to_evaluate)
        self._options, self._seed = dict(bohb_config or {}), seed
        self._max_concurrent = max_concurrent
        self._paused: set[str] = set()
        self._model: Any = None
        self._has_warned = False

    def set_max_concurrency(self, max_concurrent: int) -> bool:
        self._max_concurrent = max_concurrent
        return True

    def _convert(self, domains: dict[str, Domain]) -> object:
        import ConfigSpace

        space = ConfigSpace.ConfigurationSpace()
        add = getattr(space, "add", None) or space.add_hyperparameter
        for name, domain in domains.items():
            add(_hyperparameter(name, domain))
        return space

    def _begin(self) -> None:
        from hpbandster.optimizers.config_generators.bohb import BOHB

        if self._seed is not None:
            self._space.seed(self._seed)
        self._model = BOHB(self._space, **self._options)

    def suggest(self, trial_id: str) -> Config | str | None:
        running = self._open.keys() - self._paused
        if 0 < self._max_concurrent <= len(running):
            return None
        return super().suggest(trial_id)

    def _ask(self) -> Asked:
        found, _ = self._model.get_config(None)
        values = {name: plain(value) for name, value in dict(found).items()}
        return values, values

    def on_trial_result(self, trial_id: str, result: Report) -> None:
        if "hyperband_info" not in result and not self._has_warned:
            self._has_warned = True
            logger.warning("TuneBOHB learns nothing without HyperBandForBOHB as the scheduler.")
        budget = result.get("hyperband_info", {}).get("budget")
        values = self._open.get(trial_id)
        if budget is None or values is None:
            return
        loss = self._loss(result)
        told = {"loss": math.inf if loss is None else loss}
        self._model.new_result(_Job(told, {"budget": budget, "config": dict(values)}))

    def _tell(self, asked: object, loss: float | None) -> None:
        """The model has learnt at the milestones."""

    def on_trial_complete(
        self, trial_id: str, result: Report | None = None, error: bool = False
    ) -> None:
        super().on_trial_complete(trial_id, result, error)
        self._paused.discard(trial_id)

    def on_pause(self, trial_id: str) -> None:
        self._paused.add(trial_id)

    def on_unpause(self, trial_id: str) -> None:
        self._paused.discard(trial_id)


def _hyperparameter(name: str, domain: Domain) -> object:
    """Steps are left out: BOHB knows none."""
    import ConfigSpace

    if isinstance(domain, Categorical):
        return ConfigSpace.CategoricalHyperparameter(name, choices=domain.categories)
    if isinstance(domain, Float) and domain.bell is None:
        return ConfigSpace.UniformFloatHyperparameter(
            name, lower=domain.lower, upper=domain.upper, log=domain.is_log
        )
    if isinstance(domain, Integer):
        last = int(domain.upper) if domain.step and domain.step > 1 else int(domain.upper) - 1
        return ConfigSpace.UniformIntegerHyperparameter(
            name, lower=int(domain.lower), upper=last, log=domain.is_log
        )
    raise unknown_domain("TuneBOHB", name, domain)
