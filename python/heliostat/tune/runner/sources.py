"""New trials: from a grid and random values, or from a searcher that learns."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from heliostat.tune.aliases import Config, Report, Space
from heliostat.tune.error import TuneError
from heliostat.tune.runner.trial import Trial
from heliostat.tune.search.basic_variant import BasicVariantGenerator
from heliostat.tune.search.searcher import Searcher
from heliostat.tune.search.variant_generator import (
    Path,
    copied,
    experiment_tag,
    flat_name,
    paths_of,
    unresolved,
)

MakeTrial = Callable[[str, Config, Mapping[Path, object], str], Trial]


class Names:
    """Ids of trials: a random part for the search, and a number."""

    def __init__(self, prefix: str | None = None) -> None:
        self.prefix = prefix or uuid.uuid4().hex[:5]

    def trial_id(self, number: int) -> str:
        return f"{self.prefix}_{number:05d}"


class VariantSource:
    """Grids and random values."""

    def __init__(
        self,
        algorithm: BasicVariantGenerator,
        space: Space,
        num_samples: int,
        names: Names,
        make: MakeTrial,
        skip: int = 0,
    ) -> None:
        self.total = algorithm.count(space, num_samples)
        self._left: Iterator[tuple[Config, dict[Path, object]]] = algorithm.configurations(
            space, num_samples
        )
        self._names, self._make = names, make
        self._number = 0
        self._coming: tuple[Config, dict[Path, object]] | None = None
        self.is_finished = False
        for _ in range(skip):
            self._number += next(self._left, None) is not None
        self._look()

    def _look(self) -> None:
        self._coming = next(self._left, None)
        self.is_finished = self._coming is None

    def next(self) -> Trial | None:
        if self._coming is None:
            return None
        config, chosen = self._coming
        number, self._number = self._number, self._number + 1
        self._look()
        return self._make(
            self._names.trial_id(number), config, chosen, experiment_tag(number, chosen)
        )

    def on_result(self, trial: Trial, result: Report) -> None:
        """Nothing is learnt."""

    def on_complete(self, trial: Trial, failed: bool) -> None:
        """Nothing is learnt."""


class SearcherSource:
    """Suggestions of a searcher, each with the constants of the space."""

    has_searcher = True

    def __init__(
        self,
        searcher: Searcher,
        space: Space,
        num_samples: int,
        names: Names,
        make: MakeTrial,
        skip: int = 0,
    ) -> None:
        self.total: int | None = None if num_samples < 0 else num_samples
        self.searcher = searcher
        self._constants = _without_choices(space)
        self._names, self._make = names, make
        self._number = skip
        self.is_finished = self.total is not None and skip >= self.total

    def next(self) -> Trial | None:
        if self.is_finished:
            return None
        trial_id = self._names.trial_id(self._number)
        suggestion = self.searcher.suggest(trial_id)
        if suggestion is None:
            return None
        if suggestion == Searcher.FINISHED:
            self.is_finished = True
            return None
        if not isinstance(suggestion, Mapping):
            raise TuneError(
                f"{type(self.searcher).__name__}.suggest returned {suggestion!r}, no dict."
            )
        number, self._number = self._number, self._number + 1
        self.is_finished = self.total is not None and self._number >= self.total
        config = _merged(self._constants, suggestion)
        tag = experiment_tag(number + 1, paths_of(config))
        return self._make(trial_id, config, paths_of(suggestion), tag)

    def on_result(self, trial: Trial, result: Report) -> None:
        self.searcher.on_trial_result(trial.trial_id, result)

    def on_complete(self, trial: Trial, failed: bool) -> None:
        result = trial.last_result or None
        self.searcher.on_trial_complete(trial.trial_id, result=result, error=failed)


def _without_choices(space: Space) -> Config:
    config: Config = copied(space)
    for path, _ in list(unresolved(config)):
        *way, last = path
        inner: Any = config
        for key in way:
            inner = inner[key]
        if isinstance(inner, dict):
            del inner[last]
    return config


def _merged(base: Mapping[str, object], more: Mapping[str, object]) -> Config:
    made = dict(base)
    for key, value in more.items():
        inner = made.get(key)
        both = isinstance(inner, Mapping) and isinstance(value, Mapping)
        made[key] = _merged(inner, value) if both else value  # type: ignore[arg-type] # both are
    return made


def evaluated(chosen: Mapping[Path, object]) -> Config:
    """Return the chosen values by names such as ``optimizer/lr``."""
    return {flat_name(path): value for path, value in chosen.items()}
