"""Grid and random search: the default, which learns nothing."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from heliostat.tune.aliases import Config, Report, State
from heliostat.tune.error import TuneError
from heliostat.tune.search.sample import generator
from heliostat.tune.search.search_algorithm import SearchAlgorithm
from heliostat.tune.search.variant_generator import (
    Path,
    copied,
    grid_size,
    unresolved,
    variants,
)

if TYPE_CHECKING:
    from heliostat.tune.experiment import Experiment
    from heliostat.tune.runner.trial import Trial


class BasicVariantGenerator(SearchAlgorithm):
    """Grids multiplied out, once per sample; other values drawn at random for each trial.

    Args:
        points_to_evaluate: Configurations, or parts of them, to begin with. They count as samples; where
            there are more of them than samples, all of them are tried.
        max_concurrent: How many trials may run at a time; 0: as many as fit.
        constant_grid_search: Draw random values once per sample, the same for its whole grid.
        random_state: A seed or a numpy generator. Default: numpy's global one.

    Examples:
        >>> from ray import tune
        >>> search = tune.search.BasicVariantGenerator(points_to_evaluate=[{"lr": 0.1}], random_state=7)
        >>> config = tune.TuneConfig(search_alg=search, num_samples=4)
    """

    def __init__(
        self,
        points_to_evaluate: list[Config] | None = None,
        max_concurrent: int = 0,
        constant_grid_search: bool = False,
        random_state: object = None,
    ) -> None:
        super().__init__()
        self.points = list(points_to_evaluate or [])
        self.max_concurrent = max_concurrent
        self.constant_grid_search = constant_grid_search
        self.random_state = random_state
        self._added: list[tuple[Experiment, Iterator[tuple[Config, dict[Path, object]]]]] = []
        self._open: set[str] = set()  # of those that `next_trial` made

    # --- on its own, without a tuner ---

    def _take(self, experiment: Experiment) -> int | None:
        space, count = experiment.arguments["config"] or {}, experiment.arguments["num_samples"]
        self._added.append((experiment, self.configurations(space, count)))
        return self.count(space, count)

    def next_trial(self) -> Trial | None:
        if self._is_finished or 0 < self.max_concurrent <= len(self._open):
            return None
        trial = self._next()
        if trial is not None:
            self._open.add(trial.trial_id)
        return trial

    def _next(self) -> Trial | None:
        while self._added:
            experiment, left = self._added[0]
            made = next(left, None)
            if made is not None:
                return self._made(experiment, *made)
            self._added.pop(0)
        return None

    def on_trial_complete(
        self, trial_id: str, result: Report | None = None, error: bool = False
    ) -> None:
        self._open.discard(trial_id)

    def set_state(self, state: State) -> None:
        """Go on from an earlier state: the trials that were made are passed over."""
        for _ in range(state["number"] - self._number):
            self._next()
        super().set_state(state)

    def count(self, space: Mapping[str, object], num_samples: int) -> int | None:
        """Return how many configurations there are; ``None``: without end.

        Args:
            space: The search space.
            num_samples: How many times it is sampled; -1: without end.
        """
        if num_samples < 0:
            return None
        given = sum(grid_size(_with_point(space, point)) for point in self.points)
        return given + max(0, num_samples - len(self.points)) * grid_size(space)

    def configurations(
        self, space: Mapping[str, object], num_samples: int
    ) -> Iterator[tuple[Config, dict[Path, object]]]:
        """Give the configurations, in order.

        Args:
            space: The search space.
            num_samples: How many times it is sampled; -1: without end.

        Yields:
            A configuration, and the values that were chosen in it.
        """
        rng = generator(self.random_state)
        last = max(num_samples, len(self.points))
        samples = itertools.count() if num_samples < 0 else range(last)
        for sample in samples:
            point = self.points[sample] if sample < len(self.points) else {}
            given = _with_point(space, point)
            for config, chosen in variants(given, rng, self.constant_grid_search):
                yield config, {**_chosen_by(space, point), **chosen}


def _chosen_by(space: Mapping[str, object], point: Mapping[str, object]) -> dict[Path, object]:
    """The values of a point that stand for something in the space to choose from."""
    chosen = {}
    for path, _ in unresolved(space):
        value: object = point
        for key in path:
            value = value.get(key, _ABSENT) if isinstance(value, Mapping) else _ABSENT
        if value is not _ABSENT:
            chosen[path] = value
    return chosen


def _with_point(space: Mapping[str, object], point: Mapping[str, object]) -> Config:
    """The space with some of its choices made already."""
    merged: Config = copied(space)
    for key, value in point.items():
        if key not in space:
            raise TuneError(
                f"points_to_evaluate: {key!r} is not in the search space {list(space)}."
            )
        inner = merged[key]
        if isinstance(value, Mapping) and isinstance(inner, Mapping) and len(inner) != 1:
            merged[key] = _with_point(inner, value)
        else:
            merged[key] = value
    return merged


_ABSENT = object()
