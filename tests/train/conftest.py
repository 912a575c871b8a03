"""What the training tests share: a short way to train, on a storage of the test's own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ray.train import Result, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer
from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

Fit = Callable[..., Result]


@pytest.fixture
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """No view in the terminal."""
    monkeypatch.setenv("HELIOSTAT_TRAIN_VIEW", "off")


@pytest.fixture
def fit(ray_start: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fit:
    """``fit(loop, workers=2, torch=False, name="run", scaling={...}, **RunConfig options)``."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")

    def fit(
        loop: Callable[..., Any],
        workers: int | tuple[int, int] = 2,
        *,
        config: dict[str, Any] | None = None,
        torch: bool = False,
        name: str = "run",
        scaling: dict[str, Any] | None = None,
        trainer: dict[str, Any] | None = None,
        **run: Any,
    ) -> Result:
        kind = TorchTrainer if torch else DataParallelTrainer
        run.setdefault("storage_path", str(tmp_path))
        return kind(
            loop,
            train_loop_config=config,
            scaling_config=ScalingConfig(num_workers=workers, **(scaling or {})),
            run_config=RunConfig(name=name, **run),
            **(trainer or {}),
        ).fit()

    return fit
