"""``TensorflowTrainer``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from heliostat.train.arguments import expect
from heliostat.train.checkpoint import Checkpoint
from heliostat.train.config import RunConfig, ScalingConfig
from heliostat.train.data_config import DataConfig
from heliostat.train.data_parallel_trainer import DataParallelTrainer
from heliostat.train.tensorflow.config import TensorflowConfig
from heliostat.train.validation import ValidationConfig


class TensorflowTrainer(DataParallelTrainer):
    """Runs a TensorFlow training function on a group of workers.

    In it ``tf.distribute.MultiWorkerMirroredStrategy()`` spans all workers. Models of Keras need the package
    ``tf_keras`` on every node, since Keras 3 cannot train under that strategy. The arguments are those of
    ``DataParallelTrainer``, with

    Args:
        tensorflow_config: How the workers are connected. Default: ``TensorflowConfig()``.

    Examples:
        >>> from ray.train import ScalingConfig
        >>> from ray.train.tensorflow import TensorflowTrainer
        >>> def work(config):
        ...     import tensorflow as tf
        ...     import tf_keras as keras
        ...     with tf.distribute.MultiWorkerMirroredStrategy().scope():
        ...         model = keras.Sequential([keras.layers.Dense(1)])
        ...         model.compile(optimizer=keras.optimizers.SGD(config["lr"]), loss="mse")
        >>> trainer = TensorflowTrainer(
        ...     work, train_loop_config={"lr": 0.1}, scaling_config=ScalingConfig(num_workers=2)
        ... )
    """

    def __init__(
        self,
        train_loop_per_worker: Callable[..., Any],
        *,
        train_loop_config: dict[str, Any] | None = None,
        tensorflow_config: TensorflowConfig | None = None,
        scaling_config: ScalingConfig | None = None,
        dataset_config: DataConfig | None = None,
        run_config: RunConfig | None = None,
        datasets: dict[str, Any] | None = None,
        validation_config: ValidationConfig | None = None,
        metadata: dict[str, Any] | None = None,
        resume_from_checkpoint: Checkpoint | None = None,
    ) -> None:
        expect("tensorflow_config", tensorflow_config, TensorflowConfig)
        super().__init__(
            train_loop_per_worker,
            train_loop_config=train_loop_config,
            backend_config=tensorflow_config or TensorflowConfig(),
            scaling_config=scaling_config,
            run_config=run_config,
            datasets=datasets,
            dataset_config=dataset_config,
            validation_config=validation_config,
            metadata=metadata,
            resume_from_checkpoint=resume_from_checkpoint,
        )
