"""A search that asks Ax."""

from __future__ import annotations

from typing import Any

from heliostat.tune.aliases import Config, Report
from heliostat.tune.search.library import Asked, LibrarySearcher, unknown_domain
from heliostat.tune.search.sample import Categorical, Domain, Float, Integer


class AxSearch(LibrarySearcher):
    """Bayesian and bandit optimization by Ax's ``AxClient``.

    Args:
        space: A list of Ax's parameters, or a dict with Tune's domains. Default: ``param_space`` of the
            tuner.
        metric: What is optimized. Default: what ``TuneConfig`` says.
        mode: "min" or "max".
        points_to_evaluate: Configurations to begin with.
        parameter_constraints, outcome_constraints: As Ax takes them, such as ``"x1 + x2 <= 2"``.
        ax_client: A client with an experiment of its own, which says space, metric and mode.
        ax_kwargs: Options of ``AxClient``.

    Raises:
        ImportError: ax-platform is not installed.
    """

    modules = ("ax.service.ax_client",)

    def __init__(
        self,
        space: object = None,
        metric: str | None = None,
        mode: str | None = None,
        points_to_evaluate: list[Config] | None = None,
        parameter_constraints: list[str] | None = None,
        outcome_constraints: list[str] | None = None,
        ax_client: Any = None,
        **ax_kwargs: object,
    ) -> None:
        super().__init__(space, metric, mode, points_to_evaluate)
        self._constraints = parameter_constraints, outcome_constraints
        self._client, self._options = ax_client, ax_kwargs
        self._is_ready = ax_client is not None and _has_experiment(ax_client)
        if self._is_ready:
            if any((space, metric, mode, parameter_constraints, outcome_constraints)):
                raise ValueError(
                    "The client has an experiment already: leave out space, metric, mode and constraints."
                )
            objective = ax_client.experiment.optimization_config.objective
            self._space = list(ax_client.experiment.parameters)
            self._metric = getattr(objective, "metric", objective).name
            self._mode = "min" if objective.minimize else "max"

    def _convert(self, domains: dict[str, Domain]) -> object:
        return [_parameter(name, domain) for name, domain in domains.items()]

    def _begin(self) -> None:
        from ax.service import ax_client

        self._client = self._client or ax_client.AxClient(**self._options)
        if self._is_ready:
            return
        is_least = self._mode == "min"
        parameters, outcomes = self._constraints
        self._client.create_experiment(
            parameters=self._space,
            objectives={self._metric: ax_client.ObjectiveProperties(minimize=is_least)},
            parameter_constraints=parameters,
            outcome_constraints=outcomes,
        )

    def _ask(self) -> Asked | None:
        from ax.exceptions.core import DataRequiredError
        from ax.exceptions.generation_strategy import MaxParallelismReachedException

        try:
            values, number = self._client.get_next_trial()
        except (MaxParallelismReachedException, DataRequiredError):
            return None
        return number, values

    def _ask_point(self, values: Config) -> Asked:
        values, number = self._client.attach_trial(values)
        return number, values

    def on_trial_complete(
        self, trial_id: str, result: Report | None = None, error: bool = False
    ) -> None:
        number = self._open.pop(trial_id, None)
        if number is None:
            return
        config = self._client.experiment.optimization_config
        names = [self._metric, *(one.metric.name for one in config.outcome_constraints)]
        data = {name: (float((result or {}).get(name, "nan")), None) for name in names}
        is_known = all(abs(value) < float("inf") for value, _ in data.values())
        if error or not is_known:
            self._client.abandon_trial(trial_index=number, reason=f"{trial_id} has no result")
        else:
            self._client.complete_trial(trial_index=number, raw_data=data)

    def _tell(self, asked: object, loss: float | None) -> None:
        if loss is None:
            self._client.abandon_trial(trial_index=asked, reason="no result")
            return
        value = loss if self._mode == "min" else -loss
        self._client.complete_trial(trial_index=asked, raw_data={self._metric: (value, None)})


def _has_experiment(client: Any) -> bool:
    try:
        return client.experiment is not None
    except (AssertionError, ValueError):  # Ax says so in either way
        return False


def _parameter(name: str, domain: Domain) -> dict[str, object]:
    """Steps are left out: Ax knows none."""
    if isinstance(domain, Categorical):
        return {"name": name, "type": "choice", "values": domain.categories}
    if isinstance(domain, Float) and domain.bell is None:
        bounds, kind = [domain.lower, domain.upper], "float"
    elif isinstance(domain, Integer):
        last = int(domain.upper) if domain.step and domain.step > 1 else int(domain.upper) - 1
        bounds, kind = [int(domain.lower), last], "int"
    else:
        raise unknown_domain("AxSearch", name, domain)
    return {
        "name": name,
        "type": "range",
        "bounds": bounds,
        "value_type": kind,
        "log_scale": domain.is_log,
    }
