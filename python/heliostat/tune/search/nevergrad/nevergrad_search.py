"""A search that asks one of Nevergrad's optimizers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from heliostat.tune.aliases import Config
from heliostat.tune.search.library import Asked, LibrarySearcher, plain, unknown_domain
from heliostat.tune.search.sample import Categorical, Domain, Float, Integer

BUDGET = 100  # by which the default optimizer chooses its way; there may be more trials


class NevergradSearch(LibrarySearcher):
    """Gradient-free optimizers.

    Args:
        optimizer: A class or an instance such as ``ng.optimizers.OnePlusOne``. Default: ``NGOpt``.
        optimizer_kwargs: Options of the class, such as ``{"budget": 100}``.
        space: A parametrization of Nevergrad, or a dict with Tune's domains; a list of names, with an
            instance whose parameters are an array. Default: ``param_space`` of the tuner.
        metric: What is optimized. Default: what ``TuneConfig`` says.
        mode: "min" or "max".
        points_to_evaluate: Configurations to begin with.

    Raises:
        ImportError: nevergrad is not installed.
        ValueError: Options are given for an instance.
    """

    modules = ("nevergrad",)

    def __init__(
        self,
        optimizer: Any = None,
        optimizer_kwargs: Mapping[str, object] | None = None,
        space: object = None,
        metric: str | None = None,
        mode: str | None = None,
        points_to_evaluate: list[Config] | None = None,
    ) -> None:
        is_made = hasattr(optimizer, "ask") and not isinstance(optimizer, type)
        if is_made and optimizer_kwargs:
            raise ValueError("optimizer_kwargs are for a class: the optimizer is made already.")
        names = list(space) if is_made and isinstance(space, list | tuple) else None
        space = optimizer.parametrization if is_made else space
        super().__init__(space, metric, mode, points_to_evaluate)
        self._names, self._options = names, dict(optimizer_kwargs or {})
        self._kind = None if is_made else optimizer
        self._optimizer: Any = optimizer if is_made else None

    def _convert(self, domains: dict[str, Domain]) -> object:
        import nevergrad

        return nevergrad.p.Dict(**{name: _parameter(name, one) for name, one in domains.items()})

    def _begin(self) -> None:
        import nevergrad

        if self._optimizer is None:
            if self._kind is None:
                self._kind = nevergrad.optimizers.NGOpt
                self._options.setdefault("budget", BUDGET)
            self._optimizer = self._kind(self._space, **self._options)

    def _ask(self) -> Asked:
        return self._values_of(self._optimizer.ask())

    def _ask_point(self, values: Config) -> Asked:
        if self._names is not None:
            self._optimizer.suggest([values[name] for name in self._names])
        elif isinstance(self._optimizer.parametrization.value, Mapping):
            self._optimizer.suggest(values)
        else:
            self._optimizer.suggest(**values)
        return self._ask()

    def _values_of(self, candidate: Any) -> Asked:
        if self._names is not None:
            array = candidate.args[0] if candidate.args else candidate.value
            return candidate, dict(zip(self._names, (float(one) for one in array), strict=True))
        found = candidate.kwargs or candidate.value
        return candidate, {name: plain(value) for name, value in found.items()}

    def _tell(self, asked: object, loss: float | None) -> None:
        if loss is not None:
            self._optimizer.tell(asked, loss)


def _parameter(name: str, domain: Domain) -> object:
    """Steps are left out: Nevergrad knows none."""
    import nevergrad

    if isinstance(domain, Categorical):
        return nevergrad.p.Choice(domain.categories)
    if isinstance(domain, Float) and domain.bell is None:
        if domain.is_log:
            return nevergrad.p.Log(lower=domain.lower, upper=domain.upper)
        return nevergrad.p.Scalar(lower=domain.lower, upper=domain.upper)
    if isinstance(domain, Integer):
        last = int(domain.upper) if domain.step and domain.step > 1 else int(domain.upper) - 1
        first = int(domain.lower)
        if first == last:
            return nevergrad.p.Choice([first])
        if domain.is_log:
            return nevergrad.p.Log(lower=first, upper=last).set_integer_casting()
        return nevergrad.p.Scalar(lower=first, upper=last).set_integer_casting()
    raise unknown_domain("NevergradSearch", name, domain)
