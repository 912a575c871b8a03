"""Fixtures of the training tests: a cluster, and a short way to train, on a storage of the test's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import ray
from ray.cluster_utils import Cluster
from ray.train import Result, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer
from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

from tests.helpers.shared import cluster as shared

Fit = Callable[..., Result]


@pytest.fixture(scope="module")
def cluster_with_torch() -> Iterator[Cluster]:
    """A cluster whose nodes stay for the next test: each imports torch for its first worker."""
    shared.stop()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")
        patch.setenv("RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S", "300")
        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
        cluster.connect()
        yield cluster
        ray.shutdown()
        cluster.shutdown()


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
