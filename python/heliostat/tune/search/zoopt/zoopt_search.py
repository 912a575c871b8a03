"""A search that asks ZOOpt's classification-based optimizers."""

from __future__ import annotations

import math

from heliostat.tune.aliases import Config, Space
from heliostat.tune.search.library import Asked, LibrarySearcher, unknown_domain
from heliostat.tune.search.sample import Categorical, Domain, Float, Integer
from heliostat.tune.search.searcher import Searcher


class ZOOptSearch(LibrarySearcher):
    """SRACOS and ASRACOS.

    Args:
        algo: "asracos" (default) or "sracos".
        budget: How many trials there will be.
        dim_dict: A dict of ZOOpt's or of Tune's domains. Default: ``param_space`` of the tuner.
        metric: What is optimized. Default: what ``TuneConfig`` says.
        mode: "min" or "max".
        points_to_evaluate: Configurations to begin with.
        parallel_num: How many trials run at a time.
        kwargs: Options of ZOOpt's ``SRacosTune``.

    Raises:
        ImportError: zoopt is not installed.
        ValueError: There is no ``budget``, or ``algo`` is another one.
    """

    modules = ("zoopt",)

    def __init__(
        self,
        algo: str = "asracos",
        budget: int | None = None,
        dim_dict: Space | None = None,
        metric: str | None = None,
        mode: str | None = None,
        points_to_evaluate: list[Config] | None = None,
        parallel_num: int = 1,
        **kwargs: object,
    ) -> None:
        super().__init__(dim_dict, metric, mode, points_to_evaluate)
        if budget is None:
            raise ValueError("ZOOptSearch needs a budget: how many trials there will be.")
        if algo.lower() not in ("asracos", "sracos"):
            raise ValueError(f"algo={algo!r} must be 'asracos' or 'sracos'.")
        self._budget, self._parallel, self._options = budget, parallel_num, kwargs

    def _convert(self, domains: dict[str, Domain]) -> object:
        return {name: _dimension(name, domain) for name, domain in domains.items()}

    def _begin(self) -> None:
        import zoopt
        from zoopt.algos.opt_algorithms.racos.sracos import SRacosTune

        self._optimizer = SRacosTune(
            dimension=zoopt.Dimension2(list(self._space.values())),
            parameter=zoopt.Parameter(budget=self._budget),
            parallel_num=self._parallel,
            **self._options,
        )

    def _ask(self) -> Asked | str | None:
        solution = self._optimizer.suggest()
        if solution is None and not self._open:
            # ZOOpt waits for its first solutions even where all of them have their results.
            self._optimizer.semaphore = 1
            solution = self._optimizer.suggest()
        if solution == "FINISHED":
            return Searcher.FINISHED
        if not solution:
            return None
        return solution, dict(zip(self._space, solution.get_x(), strict=True))

    def _ask_point(self, values: Config) -> Asked:
        # ZOOpt up to 0.4 takes no points: they are tried, and it does not learn from them.
        return None, values

    def _tell(self, asked: object, loss: float | None) -> None:
        if asked is not None:  # it waits for each result: a missing one is the worst
            self._optimizer.complete(asked, math.inf if loss is None else loss)


def _dimension(name: str, domain: Domain) -> tuple[object, ...]:
    from zoopt import ValueType

    if isinstance(domain, Categorical):
        return (ValueType.GRID, domain.categories)
    if isinstance(domain, Float) and domain.bell is None and not domain.is_log:
        return (ValueType.CONTINUOUS, [domain.lower, domain.upper], domain.step or 1e-12)
    if isinstance(domain, Integer) and not domain.is_log:
        last = int(domain.upper) if domain.step and domain.step > 1 else int(domain.upper) - 1
        return (ValueType.DISCRETE, [int(domain.lower), last], True)
    raise unknown_domain("ZOOptSearch", name, domain)
