"""``JaxTrainer``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from heliostat.core.platform.extras import expected
from heliostat.train.arguments import expect
from heliostat.train.config import RunConfig, ScalingConfig
from heliostat.train.data_config import DataConfig
from heliostat.train.data_parallel_trainer import DataParallelTrainer
from heliostat.train.jax.config import JaxConfig
from heliostat.train.validation import ValidationConfig


class JaxTrainer(DataParallelTrainer):
    """Runs a JAX training function on a group of workers: one program, many devices.

    In it ``jax.devices()`` are the devices of all workers, ``jax.local_devices()`` its own. The
    arguments are those of ``DataParallelTrainer``, with

    Args:
        jax_config: Which devices. Default: what ``scaling_config`` says.

    Examples:
        >>> from ray import train
        >>> from ray.train import ScalingConfig
        >>> from ray.train.jax import JaxTrainer
        >>> def work(config):
        ...     import jax
        ...     train.report({"devices": jax.device_count(), "of this worker": jax.local_device_count()})
        >>> def main():  # the driver needs jax, too
        ...     trainer = JaxTrainer(
        ...         work, train_loop_config={"steps": 10}, scaling_config=ScalingConfig(num_workers=2)
        ...     )
        ...     return trainer.fit().metrics
    """

    def __init__(
        self,
        train_loop_per_worker: Callable[..., Any],
        *,
        train_loop_config: dict[str, Any] | None = None,
        jax_config: JaxConfig | None = None,
        scaling_config: ScalingConfig | None = None,
        dataset_config: DataConfig | None = None,
        run_config: RunConfig | None = None,
        datasets: dict[str, Any] | None = None,
        validation_config: ValidationConfig | None = None,
    ) -> None:
        expect("jax_config", jax_config, JaxConfig)
        expect("scaling_config", scaling_config, ScalingConfig)
        use_gpu = scaling_config is not None and scaling_config.use_gpu
        if jax_config is not None and jax_config.use_gpu and not use_gpu:
            raise ValueError(
                "JaxConfig(use_gpu=True) needs GPUs: set ScalingConfig(use_gpu=True) too."
            )
        expected("jax", "JaxTrainer")
        super().__init__(
            train_loop_per_worker,
            train_loop_config=train_loop_config,
            backend_config=jax_config or JaxConfig(use_gpu=use_gpu),
            scaling_config=scaling_config,
            run_config=run_config,
            datasets=datasets,
            dataset_config=dataset_config,
            validation_config=validation_config,
        )
