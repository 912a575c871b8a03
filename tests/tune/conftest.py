"""What the tests of searches share: a short way to run one, in a folder of the test's own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("numpy", reason="search spaces draw with numpy")

Fit = Callable[..., Any]


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
