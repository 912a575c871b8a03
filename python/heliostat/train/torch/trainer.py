"""``TorchTrainer``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from heliostat.core.platform.extras import expected
from heliostat.train.arguments import expect
from heliostat.train.config import RunConfig, ScalingConfig
from heliostat.train.data_config import DataConfig
from heliostat.train.data_parallel_trainer import DataParallelTrainer
from heliostat.train.torch.config import FaultTolerantConfig, TorchConfig
from heliostat.train.validation import ValidationConfig


class TorchTrainer(DataParallelTrainer):
    """Runs a PyTorch training function on a group of workers.

    Before it starts, ``torch.distributed`` is initialised on every worker, and the variables that
    ``torchrun`` sets are there. The arguments are those of ``DataParallelTrainer``, with

    Args:
        torch_config: Backend and timeout of the process group. Default ``TorchConfig()``.

    Examples:
        >>> import ray
        >>> import torch
        >>> from ray import train
        >>> from ray.train import ScalingConfig
        >>> from ray.train.torch import TorchTrainer, prepare_model
        >>> def work():
        ...     model = prepare_model(torch.nn.Linear(1, 1))
        ...     optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        ...     for _ in range(3):
        ...         loss = (model(torch.ones(4, 1)) - 2).square().mean()
        ...         optimizer.zero_grad()
        ...         loss.backward()
        ...         optimizer.step()
        ...     train.report({"loss": loss.item()})
        >>> result = TorchTrainer(work, scaling_config=ScalingConfig(num_workers=0)).fit()
        >>> result.metrics["loss"] < 10
        True
    """

    def __init__(
        self,
        train_loop_per_worker: Callable[..., Any],
        *,
        train_loop_config: dict[str, Any] | None = None,
        torch_config: TorchConfig | None = None,
        scaling_config: ScalingConfig | None = None,
        run_config: RunConfig | None = None,
        datasets: dict[str, Any] | None = None,
        dataset_config: DataConfig | None = None,
        validation_config: ValidationConfig | None = None,
        metadata: dict[str, Any] | None = None,
        resume_from_checkpoint: Any = None,
    ) -> None:
        expected("torch", "TorchTrainer")
        expect("torch_config", torch_config, TorchConfig)
        super().__init__(
            train_loop_per_worker,
            train_loop_config=train_loop_config,
            backend_config=torch_config or TorchConfig(),
            scaling_config=scaling_config,
            run_config=run_config,
            datasets=datasets,
            dataset_config=dataset_config,
            validation_config=validation_config,
            metadata=metadata,
            resume_from_checkpoint=resume_from_checkpoint,
        )
        if isinstance(torch_config, FaultTolerantConfig):
            torch_config.check_workers(self.scaling_config.num_workers)
            if datasets and self.scaling_config.elasticity_enabled:
                raise ValueError(
                    f"datasets with FaultTolerantConfig and num_workers={self.scaling_config.num_workers}: "
                    "a replica group that joins later would get none of them. Use run.batches() with a "
                    "map-style dataset, or give num_workers one number."
                )
        backend = torch_config.backend if torch_config is not None else None
        if (
            backend == "nccl"
            and self.scaling_config.num_workers
            and not self.scaling_config.use_gpu
        ):
            raise ValueError(
                "TorchConfig(backend='nccl') needs GPUs, while use_gpu=False hides them from the "
                "workers. Set ScalingConfig(use_gpu=True), or backend='gloo' to train on CPUs."
            )
