"""Collective operations that wait for a rank which does not come."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from ray import train
from ray.train import FailureConfig, RunConfig, ScalingConfig, WorkerGroupError
from ray.train.torch import TorchConfig, TorchTrainer

pytest.importorskip("torch")
pytest.importorskip("heliostat.train.torch.replica")

from heliostat.train.torch import FaultTolerantConfig

pytestmark = [
    pytest.mark.usefixtures("quiet"),
    pytest.mark.timeout(150),
    pytest.mark.heliostat_only("Ray gives the error of the library, of one rank"),
]


def test_a_collective_that_times_out_names_who_is_missing(fit: Any) -> None:
    def loop() -> None:
        import torch
        import torch.distributed as dist

        def stuck_here() -> None:
            time.sleep(3600)

        def waits_here() -> None:
            dist.all_reduce(torch.ones(1))

        if train.get_context().get_world_rank() == 1:
            stuck_here()
        waits_here()

    with pytest.raises(WorkerGroupError) as caught:
        fit(loop, 3, torch=True, trainer={"torch_config": TorchConfig(timeout_s=3)})
    text = str(caught.value)
    assert "Rank 1 did not join a collective operation within 3 s" in text
    assert "ranks 0, 2 wait there" in text
    assert "stuck_here" in text
    assert text.count("waits_here") >= 2


def test_a_rank_that_hangs_is_replaced_while_the_others_train(
    ray_start: Any, tmp_path: Path
) -> None:
    def loop(config: dict[str, Any]) -> int:
        import torch

        model = torch.nn.Linear(4, 1)
        run = train.torch.fault_tolerant(model=model)
        rank = train.get_context().get_world_rank()
        for step in run.steps(10):
            hung = tmp_path / "hung"
            if rank == 2 and step == 3 and not hung.exists():
                hung.write_text("")
                time.sleep(3600)
            model(torch.ones(2, 4)).sum().backward()
        return run.step

    result = TorchTrainer(
        loop,
        train_loop_config={},
        torch_config=FaultTolerantConfig(timeout_s=3),
        scaling_config=ScalingConfig(num_workers=3),
        run_config=RunConfig(
            name="run", storage_path=str(tmp_path), failure_config=FailureConfig(max_failures=2)
        ),
    ).fit()
    assert result.return_value == 10
