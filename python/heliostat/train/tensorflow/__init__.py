"""TensorFlow on a group of workers, which ``tf.distribute.MultiWorkerMirroredStrategy`` connects.

def train_loop_per_worker(config):
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    with strategy.scope():
        model = build_model()

tensorflow is imported on the workers alone, and when a name of this package that needs it is used first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from heliostat.train import lazy

if TYPE_CHECKING:
    from heliostat.train.tensorflow.checkpoint import TensorflowCheckpoint
    from heliostat.train.tensorflow.config import TensorflowConfig
    from heliostat.train.tensorflow.dataset import prepare_dataset_shard
    from heliostat.train.tensorflow.trainer import TensorflowTrainer

_HOME = {
    "TensorflowCheckpoint": "checkpoint",
    "TensorflowConfig": "config",
    "TensorflowTrainer": "trainer",
    "prepare_dataset_shard": "dataset",
}

__all__ = [
    "TensorflowCheckpoint",
    "TensorflowConfig",
    "TensorflowTrainer",
    "prepare_dataset_shard",
]

__getattr__, __dir__ = lazy.names(__name__, _HOME)
