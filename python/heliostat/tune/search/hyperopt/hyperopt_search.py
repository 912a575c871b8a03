"""A search that asks Hyperopt's tree of Parzen estimators."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from typing import Any

from heliostat.tune.aliases import Config, Space, State
from heliostat.tune.search.library import Asked, LibrarySearcher, domains_of, plain, unknown_domain
from heliostat.tune.search.sample import Categorical, Domain, Float, Integer
from heliostat.tune.search.variant_generator import unresolved
from heliostat.tune.stopper import flattened


class HyperOptSearch(LibrarySearcher):
    """Hyperopt's TPE.

    Args:
        space: A dict of Hyperopt's or of Tune's domains. Default: ``param_space`` of the tuner.
        metric: What is optimized. Default: what ``TuneConfig`` says.
        mode: "min" or "max".
        points_to_evaluate: Configurations to begin with.
        n_initial_points: How many random configurations come before the model is asked.
        random_state_seed: Seed of what is drawn.
        gamma: Which part of the results counts as good.

    Raises:
        ImportError: hyperopt is not installed.
    """

    modules = ("hyperopt",)

    def __init__(
        self,
        space: Space | None = None,
        metric: str | None = None,
        mode: str | None = None,
        points_to_evaluate: list[Config] | None = None,
        n_initial_points: int | None = 20,
        random_state_seed: int | None = None,
        gamma: float | None = 0.25,
    ) -> None:
        super().__init__(space, metric, mode, points_to_evaluate)
        self._startup, self._gamma, self._seed = n_initial_points, gamma, random_state_seed

    def _convert(self, domains: dict[str, Domain]) -> object:
        return {name: _expression(name, domain) for name, domain in domains.items()}

    def _begin(self) -> None:
        import hyperopt
        import numpy as np

        if isinstance(self._space, Mapping):
            self._space = flattened(dict(self._space))
        self._domain = hyperopt.base.Domain(lambda values: values, self._space)
        self._trials = hyperopt.Trials()
        self._random = np.random.RandomState(self._seed)
        options = {"n_startup_jobs": self._startup, "gamma": self._gamma}
        given = {name: value for name, value in options.items() if value is not None}
        self._algorithm = functools.partial(hyperopt.tpe.suggest, **given)

    def _ask(self) -> Asked:
        ids = self._trials.new_trial_ids(1)
        self._trials.refresh()
        seed = int(self._random.randint(2**31 - 1))
        (document,) = self._algorithm(ids, self._domain, self._trials, seed)
        return self._added(document)

    def _ask_point(self, values: Config) -> Asked:
        from hyperopt.fmin import generate_trials_to_calculate

        labels = {
            name: _index(self._space.get(name), name, value) for name, value in values.items()
        }
        (document,) = generate_trials_to_calculate([labels])._dynamic_trials
        (document["tid"],) = self._trials.new_trial_ids(1)
        document["misc"]["tid"] = document["tid"]
        document["misc"]["idxs"] = {name: [document["tid"]] for name in labels}
        return self._added(document)

    def _added(self, document: dict[str, Any]) -> Asked:
        import hyperopt

        self._trials.insert_trial_docs([document])
        self._trials.refresh()
        labels = hyperopt.base.spec_from_misc(document["misc"])
        values = hyperopt.space_eval(self._space, labels)
        return document["tid"], {name: plain(value) for name, value in values.items()}

    def _tell(self, asked: object, loss: float | None) -> None:
        import hyperopt

        document = next(one for one in self._trials._dynamic_trials if one["tid"] == asked)
        if loss is None:
            document["state"] = hyperopt.JOB_STATE_ERROR
            document["misc"]["error"] = ("TuneError", "the trial has no result")
        else:
            document["state"] = hyperopt.JOB_STATE_DONE
            document["result"] = {"loss": loss, "status": hyperopt.STATUS_OK}
        self._trials.refresh()

    def get_state(self) -> State:
        # The domain holds a function that is made anew.
        return {name: value for name, value in vars(self).items() if name != "_domain"}

    def set_state(self, state: State) -> None:
        import hyperopt

        vars(self).update(state)
        if self._has_begun:
            self._domain = hyperopt.base.Domain(lambda values: values, self._space)


def _expression(name: str, domain: Domain) -> object:
    """Hyperopt's word for a domain; whole numbers exclude the upper bound, as Tune's do."""
    from hyperopt import hp
    from hyperopt.pyll import scope

    if isinstance(domain, Categorical):
        return hp.choice(name, [_inner(name, n, one) for n, one in enumerate(domain.categories)])
    if isinstance(domain, Float):
        low, high, step = domain.lower, domain.upper, domain.step
        if domain.bell is not None:
            mean, deviation = domain.bell
            if step:
                return hp.qnormal(name, mean, deviation, step)
            return hp.normal(name, mean, deviation)
        if domain.is_log:
            low, high = math.log(low), math.log(high)
            return hp.qloguniform(name, low, high, step) if step else hp.loguniform(name, low, high)
        return hp.quniform(name, low, high, step) if step else hp.uniform(name, low, high)
    if isinstance(domain, Integer) and domain.bell is None:
        step = int(domain.step or 1)
        last = int(domain.upper) if step > 1 else int(domain.upper) - 1
        if domain.is_log:
            first, end = math.log(domain.lower), math.log(max(last, domain.lower))
            return scope.int(hp.qloguniform(name, first, end, step))
        if step > 1:
            return scope.int(hp.quniform(name, int(domain.lower), last, step))
        return scope.int(hp.randint(name, int(domain.lower), last + 1))
    raise unknown_domain("HyperOptSearch", name, domain)


def _inner(name: str, place: int, value: object) -> object:
    """A choice may be a space of its own."""
    if isinstance(value, Domain):
        return _expression(f"{name}/{place}", value)
    if isinstance(value, Mapping) and next(unresolved(value), None) is not None:
        inner = domains_of(value, "HyperOptSearch")
        found = {key: one for key, one in flattened(dict(value)).items() if key not in inner}
        found.update({key: _expression(f"{name}/{place}/{key}", one) for key, one in inner.items()})
        return found
    return value


def _index(expression: Any, name: str, value: object) -> object:
    """The place of a value among those of a choice; other values are themselves."""
    if getattr(expression, "name", None) != "switch":
        return value
    values = [one.obj for one in expression.pos_args[1:] if one.name == "literal"]
    if value not in values:
        raise ValueError(f"points_to_evaluate: {name!r} has no value {value!r}, only {values}.")
    return values.index(value)
