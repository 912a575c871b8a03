"""Datasets of TensorFlow on the workers of a run."""

from __future__ import annotations

from typing import Any

from heliostat.core.platform.extras import required


def prepare_dataset_shard(tf_dataset_shard: Any) -> Any:
    """A ``tf.data.Dataset`` that strategies leave whole, since it is this worker's part already.

    Args:
        tf_dataset_shard: Made of the batches of ``ray.train.get_dataset_shard()``, by ``to_tf`` for one.

    Returns:
        The dataset without sharding, the next batches fetched ahead.

    Raises:
        ImportError: TensorFlow is not installed.

    Examples:
        >>> import ray.data
        >>> from ray import train
        >>> from ray.train import ScalingConfig
        >>> from ray.train.tensorflow import TensorflowTrainer, prepare_dataset_shard
        >>> def work():
        ...     shard = train.get_dataset_shard("train").to_tf("x", "y", batch_size=32)
        ...     shard = prepare_dataset_shard(shard)
        ...     ...  # model.fit(shard)
        >>> dataset = ray.data.from_items([{"x": float(i), "y": 2.0 * i} for i in range(64)])
        >>> trainer = TensorflowTrainer(
        ...     work, scaling_config=ScalingConfig(num_workers=2), datasets={"train": dataset}
        ... )
    """
    tf = required("tensorflow", "prepare_dataset_shard")
    options = tf.data.Options()
    sharding = tf.data.experimental.AutoShardPolicy
    options.experimental_distribute.auto_shard_policy = sharding.OFF
    return tf_dataset_shard.with_options(options).prefetch(tf.data.AUTOTUNE)
