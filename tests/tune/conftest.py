"""What the tests of searches share: a short way to run one, and one that is driven by hand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("numpy", reason="search spaces draw with numpy")

Fit = Callable[..., Any]
MakeSearch = Callable[..., Any]


@pytest.fixture
def fit(ray_start: Any, tmp_path: Path) -> Fit:
    """``fit(trainable, space, run={...}, **options of TuneConfig)``: a ResultGrid."""
    from ray import tune

    def fit(
        trainable: Any,
        space: dict[str, Any] | None = None,
        run: dict[str, Any] | None = None,
        **config: Any,
    ) -> Any:
        config.setdefault("metric", "score")
        config.setdefault("mode", "max")
        options = {"name": "search", "storage_path": str(tmp_path), "verbose": 0, **(run or {})}
        return tune.Tuner(
            trainable,
            param_space=space,
            tune_config=tune.TuneConfig(**config),
            run_config=tune.RunConfig(**options),
        ).fit()

    return fit


class Listed:
    """A source of trials that were made before; it keeps what it hears."""

    def __init__(self, configs: list[dict[str, Any]], folder: str, searcher: Any) -> None:
        from heliostat.tune.runner.trial import Trial

        self.left = [
            Trial("f", trial_id=f"t{n}", config=dict(config), experiment_tag=f"tag{n}")
            for n, config in enumerate(configs)
        ]
        for trial in self.left:
            trial.local_experiment_path = folder
        self.total: int | None = len(configs)
        self.searcher = searcher
        self.heard: list[tuple[str, bool]] = []

    @property
    def is_finished(self) -> bool:
        return not self.left

    def next(self) -> Any:
        return self.left.pop(0) if self.left else None

    def on_result(self, trial: Any, result: dict[str, Any]) -> None:
        pass

    def on_complete(self, trial: Any, failed: bool) -> None:
        self.heard.append((trial.trial_id, failed))


@pytest.fixture
def search() -> MakeSearch:
    """``search(configs or their count, scheduler, **limits)``: a search without processes.

    The scheduler maximizes ``metric`` where it says nothing itself; None: it is left as it is.
    """
    from heliostat.tune.runner.search import Limits, Search
    from heliostat.tune.stopper import stopper_of

    def search(
        configs: int | list[dict[str, Any]],
        scheduler: Any,
        stop: Any = None,
        folder: str = "",
        searcher: Any = None,
        metric: str | None = "score",
        **limits: Any,
    ) -> Search:
        if isinstance(configs, int):
            configs = [{"n": n} for n in range(configs)]
        if metric is not None:
            scheduler.set_search_properties(None if scheduler.metric else metric, "max")
        source = Listed(configs, folder, searcher)
        return Search(source, scheduler, stopper_of(stop), Limits(**limits))

    return search
