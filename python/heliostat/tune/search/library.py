"""The base of searchers that ask another library."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from typing import Any, ClassVar, TypeAlias

from heliostat.core.platform.extras import required
from heliostat.tune.aliases import Config, Report
from heliostat.tune.result import DEFAULT_METRIC
from heliostat.tune.search.sample import Domain
from heliostat.tune.search.searcher import UNDEFINED_METRIC_MODE, UNDEFINED_SEARCH_SPACE, Searcher
from heliostat.tune.search.variant_generator import flat_name, nested, unresolved
from heliostat.tune.stopper import flattened

# The library's own handle for a result, and the values that it suggests, by their flat names.
Asked: TypeAlias = tuple[object, Config]


class LibrarySearcher(Searcher):
    """Asks a library for values by their flat names, such as ``model/lr``, and tells it losses.

    Args:
        space: Of the library, or a dict with Tune's domains. Default: ``param_space`` of the tuner.
        metric: What is optimized. Default: what ``TuneConfig`` says.
        mode: "min" or "max".
        points_to_evaluate: Configurations to begin with.

    Raises:
        ImportError: The library is not installed; the message says how to get it.
    """

    modules: ClassVar[tuple[str, ...]]  # what is imported

    def __init__(
        self,
        space: object = None,
        metric: str | None = None,
        mode: str | None = None,
        points_to_evaluate: list[Config] | None = None,
    ) -> None:
        for module in self.modules:
            required(module, type(self).__name__)
        if metric is None and mode is not None:
            metric = DEFAULT_METRIC
        super().__init__(metric, mode)
        if isinstance(space, Mapping) and next(unresolved(space), None) is not None:
            space = self._convert(domains_of(space, type(self).__name__))
        self._space: Any = space
        self._points = copy.deepcopy(list(points_to_evaluate or []))
        self._open: dict[str, Any] = {}  # what was asked, by trial
        self._has_begun = False

    # --- what a library is asked ---

    def _convert(self, domains: dict[str, Domain]) -> object:
        """The library's space of these values."""
        raise NotImplementedError

    def _begin(self) -> None:
        """The space, the metric and the mode are known."""

    def _ask(self) -> Asked | str | None:
        """Return the library's own handle for a result, and the values; None for not yet."""
        raise NotImplementedError

    def _ask_point(self, values: Config) -> Asked:
        """Ask about values that the user has given."""
        return values, values

    def _tell(self, asked: object, loss: float | None) -> None:
        """Tell the library the result, the lower the better; None: the trial failed."""
        raise NotImplementedError

    # --- what a search calls ---

    def set_search_properties(
        self, metric: str | None, mode: str | None, config: Config, **spec: object
    ) -> bool:
        if self._space is not None and next(unresolved(config), None) is not None:
            return False
        if self._space is None:
            self._space = self._convert(domains_of(config, type(self).__name__))
        self._metric, self._mode = self._metric or metric, self._mode or mode
        if self._metric is None and self._mode is not None:
            self._metric = DEFAULT_METRIC
        return True

    def _check(self) -> None:
        """Begin, before the first question."""
        if self._has_begun:
            return
        name = type(self).__name__
        if self._space is None:
            raise RuntimeError(UNDEFINED_SEARCH_SPACE.format(cls=name, space="space"))
        if not self._metric or not self._mode:
            raise RuntimeError(
                UNDEFINED_METRIC_MODE.format(cls=name, metric=self._metric, mode=self._mode)
            )
        self._begin()
        self._has_begun = True

    def suggest(self, trial_id: str) -> Config | str | None:
        self._check()
        point = self._points.pop(0) if self._points else None
        found = self._ask() if point is None else self._ask_point(flattened(point))
        if not isinstance(found, tuple):
            return found
        self._open[trial_id], values = found
        return nested(values)

    def on_trial_complete(
        self, trial_id: str, result: Report | None = None, error: bool = False
    ) -> None:
        asked = self._open.pop(trial_id, None)
        if asked is not None:
            self._tell(asked, None if error else self._loss(result))

    def add_evaluated_point(
        self,
        parameters: Config,
        value: float,
        error: bool = False,
        pruned: bool = False,
        intermediate_values: list[float] | None = None,
    ) -> None:
        self._check()
        asked, _ = self._ask_point(flattened(parameters))
        self._tell(asked, None if error else self._loss({self._metric or "": value}))

    def _loss(self, result: Mapping[str, Any] | None) -> float | None:
        value = float((result or {}).get(self._metric, math.nan))
        if not math.isfinite(value):
            return None
        return value if self._mode == "min" else -value


def domains_of(space: Mapping[str, object], searcher: str) -> dict[str, Domain]:
    """The domains of a space by their flat names.

    Raises:
        ValueError: There is a grid or a function among them, or nothing to search.
    """
    domains: dict[str, Domain] = {}
    for path, value in unresolved(space):
        if not isinstance(value, Domain):
            raise ValueError(
                f"{flat_name(path)!r} is a grid: {searcher} takes none, use tune.choice."
            )
        if value.is_function():
            raise ValueError(
                f"{flat_name(path)!r} is a tune.sample_from: {searcher} cannot learn about it. Compute it "
                "in the trainable."
            )
        domains[flat_name(path)] = value
    if not domains:
        raise ValueError(
            f"param_space has nothing for {searcher} to choose, such as tune.uniform(0, 1)."
        )
    return domains


def plain(value: object) -> object:
    """numpy's numbers as Python's; other values as they are."""
    item = getattr(value, "item", None)
    return item() if callable(item) else value


def unknown_domain(searcher: str, name: str, domain: Domain) -> ValueError:
    """The error for a kind of parameter that a search library does not support."""
    return ValueError(f"{searcher} takes no parameter such as {name!r}: {describe(domain)}.")


def describe(domain: Domain) -> str:
    """A domain for people."""
    how = [
        name
        for word, name in (("is_log", "is_log"), ("bell", "normal"), ("step", "q"))
        if getattr(domain, word, None) not in (None, False)
    ]
    return f"{type(domain).__name__} {domain.domain_str}{' with ' + ', '.join(how) if how else ''}"
