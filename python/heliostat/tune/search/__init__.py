"""Where configurations come from: search spaces, random and grid search, searchers that learn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from heliostat.tune.search.basic_variant import BasicVariantGenerator
from heliostat.tune.search.searcher import (
    UNDEFINED_METRIC_MODE,
    UNDEFINED_SEARCH_SPACE,
    ConcurrencyLimiter,
    Searcher,
)
from heliostat.tune.search.variant_generator import grid_search


def _optuna() -> Any:
    from heliostat.tune.search.optuna import OptunaSearch

    return OptunaSearch


SEARCH_ALG_IMPORT: dict[str, Callable[[], Any]] = {
    "variant_generator": lambda: BasicVariantGenerator,
    "random": lambda: BasicVariantGenerator,
    "optuna": _optuna,
}


def create_searcher(search_alg: str, **kwargs: Any) -> Any:
    """Return the search algorithm of that name: "random", "variant_generator" or "optuna"."""
    name = search_alg.lower()
    if name not in SEARCH_ALG_IMPORT:
        raise ValueError(
            f"The `search_alg` argument must be one of {list(SEARCH_ALG_IMPORT)}. Got: {search_alg}"
        )
    return SEARCH_ALG_IMPORT[name]()(**kwargs)


__all__ = [
    "UNDEFINED_METRIC_MODE",
    "UNDEFINED_SEARCH_SPACE",
    "BasicVariantGenerator",
    "ConcurrencyLimiter",
    "Searcher",
    "create_searcher",
    "grid_search",
]
