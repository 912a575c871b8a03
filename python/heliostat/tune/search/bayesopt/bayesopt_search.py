"""A search that asks the package bayesian-optimization."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

from heliostat.tune.aliases import Config, Space
from heliostat.tune.search.library import Asked, LibrarySearcher, unknown_domain
from heliostat.tune.search.sample import Domain, Float
from heliostat.tune.search.searcher import Searcher

if TYPE_CHECKING:
    from heliostat.tune.analysis import ExperimentAnalysis


class BayesOptSearch(LibrarySearcher):
    """A Gaussian process with an upper confidence bound, over real numbers.

    Args:
        space: A dict of ``(lowest, highest)``, or of Tune's domains. Default: ``param_space`` of the tuner.
        metric: What is optimized. Default: what ``TuneConfig`` says.
        mode: "min" or "max".
        points_to_evaluate: Configurations to begin with.
        utility_kwargs: ``kind`` ("ucb", "ei" or "poi"), ``kappa`` and ``xi`` of the acquisition function.
        random_state: Seed of what is drawn.
        random_search_steps: How many results come before the process is asked.
        verbose: Of the package.
        patience: The search ends when a configuration came so many times.
        skip_duplicate: Whether a configuration is not tried again.
        analysis: An ``ExperimentAnalysis`` whose results are known already.
        repeat_float_precision: How many digits make two configurations the same.

    Raises:
        ImportError: bayesian-optimization is not installed.
        ValueError: ``patience`` is below 1, or the space has other than uniform real numbers.
    """

    modules = ("bayes_opt",)

    def __init__(
        self,
        space: Space | None = None,
        metric: str | None = None,
        mode: str | None = None,
        points_to_evaluate: list[Config] | None = None,
        utility_kwargs: Mapping[str, object] | None = None,
        random_state: int = 42,
        random_search_steps: int = 10,
        verbose: int = 0,
        patience: int = 5,
        skip_duplicate: bool = True,
        analysis: ExperimentAnalysis | None = None,
        repeat_float_precision: int = 5,
    ) -> None:
        super().__init__(space, metric, mode, points_to_evaluate)
        if patience < 1:
            raise ValueError(f"patience={patience!r} must be 1 or more.")
        self._utility = {"kind": "ucb", "kappa": 2.576, "xi": 0.0, **(utility_kwargs or {})}
        self._seed, self._random_steps, self._verbose = random_state, random_search_steps, verbose
        self._patience, self._skip, self._digits = patience, skip_duplicate, repeat_float_precision
        self._analysis = analysis
        self._came: Counter[tuple[float, ...]] = Counter()
        self._random_given = 0
        self._early: list[tuple[object, float]] = []
        self._is_learning = False

    def _convert(self, domains: dict[str, Domain]) -> object:
        space = {}
        for name, domain in domains.items():
            if not isinstance(domain, Float) or domain.bell is not None or domain.is_log:
                raise unknown_domain("BayesOptSearch", name, domain)
            space[name] = (domain.lower, domain.upper)
        return space

    def _begin(self) -> None:
        import bayes_opt

        options: dict[str, object] = {"verbose": self._verbose, "random_state": self._seed}
        if hasattr(bayes_opt, "UtilityFunction"):  # up to 1.5
            self._function: object = bayes_opt.UtilityFunction(**self._utility)
        else:
            self._function = None
            options["acquisition_function"] = _acquisition(self._utility, self._seed)
        self._optimizer = bayes_opt.BayesianOptimization(f=None, pbounds=self._space, **options)
        if self._analysis is not None:
            frame = self._analysis.dataframe(metric=self._metric, mode=self._mode)
            for _, row in frame.iterrows():
                values = {name: row.get(f"config/{name}") for name in self._space}
                loss = self._loss(row)
                if loss is not None:
                    self._optimizer.register(values, -loss)

    def _ask(self) -> Asked | str | None:
        if not self._is_learning and self._random_given >= self._random_steps > 0:
            return None  # the first results are waited for
        found = self._optimizer.suggest(*([self._function] if self._function else []))
        values = {name: float(value) for name, value in found.items()}
        again = self._noted(values)
        if max(self._came.values()) > self._patience:
            return Searcher.FINISHED
        if again and self._skip:
            return None
        self._random_given += 1
        return values, values

    def _noted(self, values: Config) -> bool:
        """Whether the configuration came before."""
        key = tuple(round(float(values[name]), self._digits) for name in sorted(values))
        self._came[key] += 1
        return self._came[key] > 1

    def _ask_point(self, values: Config) -> Asked:
        self._noted(values)
        self._random_given += 1
        return values, values

    def _tell(self, asked: object, loss: float | None) -> None:
        if loss is None:
            self._random_given -= not self._is_learning  # another one takes its place
            return
        self._early.append((asked, loss))
        self._is_learning = self._is_learning or len(self._early) >= self._random_steps
        if self._is_learning:
            for values, value in self._early:
                self._optimizer.register(values, -value)
            self._early.clear()


def _acquisition(utility: Mapping[str, object], seed: int) -> object:
    from bayes_opt import acquisition

    kind = utility["kind"]
    if kind == "ucb":
        return acquisition.UpperConfidenceBound(kappa=utility["kappa"], random_state=seed)
    if kind == "ei":
        return acquisition.ExpectedImprovement(xi=utility["xi"], random_state=seed)
    if kind in ("poi", "pi"):
        return acquisition.ProbabilityOfImprovement(xi=utility["xi"], random_state=seed)
    raise ValueError(f"utility_kwargs: kind={kind!r} must be 'ucb', 'ei' or 'poi'.")
