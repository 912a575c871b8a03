"""Sources of configurations: search spaces, random and grid search, searchers that learn."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable

from heliostat.tune.search.basic_variant import BasicVariantGenerator
from heliostat.tune.search.repeater import Repeater
from heliostat.tune.search.search_algorithm import SearchAlgorithm
from heliostat.tune.search.search_generator import SearchGenerator
from heliostat.tune.search.searcher import (
    UNDEFINED_METRIC_MODE,
    UNDEFINED_SEARCH_SPACE,
    ConcurrencyLimiter,
    Searcher,
)
from heliostat.tune.search.variant_generator import grid_search


def _lazy(module: str, name: str) -> Callable[[], type[Searcher]]:
    """The class is imported when it is asked for."""

    return lambda: getattr(importlib.import_module(f"{__name__}.{module}"), name)


SEARCH_ALG_IMPORT: dict[str, Callable[[], type[Searcher | SearchAlgorithm]]] = {
    "variant_generator": lambda: BasicVariantGenerator,
    "random": lambda: BasicVariantGenerator,
    "ax": _lazy("ax", "AxSearch"),
    "bayesopt": _lazy("bayesopt", "BayesOptSearch"),
    "bohb": _lazy("bohb", "TuneBOHB"),
    "hebo": _lazy("hebo", "HEBOSearch"),
    "hyperopt": _lazy("hyperopt", "HyperOptSearch"),
    "nevergrad": _lazy("nevergrad", "NevergradSearch"),
    "optuna": _lazy("optuna", "OptunaSearch"),
    "zoopt": _lazy("zoopt", "ZOOptSearch"),
}


def create_searcher(search_alg: str, **kwargs: object) -> Searcher | SearchAlgorithm:
    """Return the search algorithm of that name.

    Args:
        search_alg: Such as ``"random"``, ``"optuna"`` or ``"hyperopt"``.
        **kwargs: Arguments; it gets those that it takes.

    Raises:
        ValueError: There is no such algorithm.

    Examples:
        >>> from ray import tune
        >>> searcher = tune.create_searcher("random", max_concurrent=2)
        >>> config = tune.TuneConfig(search_alg=searcher, num_samples=8)
    """
    name = search_alg.lower()
    if name not in SEARCH_ALG_IMPORT:
        raise ValueError(
            f"The `search_alg` argument must be one of {list(SEARCH_ALG_IMPORT)}. Got: {search_alg}"
        )
    kind = SEARCH_ALG_IMPORT[name]()
    taken = inspect.signature(kind).parameters
    is_open = any(one.kind is inspect.Parameter.VAR_KEYWORD for one in taken.values())
    return kind(**{name: value for name, value in kwargs.items() if is_open or name in taken})


__all__ = [
    "UNDEFINED_METRIC_MODE",
    "UNDEFINED_SEARCH_SPACE",
    "BasicVariantGenerator",
    "ConcurrencyLimiter",
    "Repeater",
    "SearchAlgorithm",
    "SearchGenerator",
    "Searcher",
    "create_searcher",
    "grid_search",
]
