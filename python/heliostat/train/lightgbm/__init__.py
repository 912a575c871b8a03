"""LightGBM on a group of workers, connected by its own network.

def train_loop_per_worker(config):
    rows = lightgbm.Dataset(...)  # this worker's part
    params = {"tree_learner": "data_parallel", "pre_partition": True, **get_network_params()}
    lightgbm.train(params, rows, valid_sets=[rows], callbacks=[RayTrainReportCallback()])

lightgbm is imported by the training function only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from heliostat.train import lazy

if TYPE_CHECKING:
    from heliostat.train.lightgbm.callback import RayTrainReportCallback
    from heliostat.train.lightgbm.checkpoint import LightGBMCheckpoint
    from heliostat.train.lightgbm.config import LightGBMConfig, get_network_params
    from heliostat.train.lightgbm.frames import normalize_pandas_for_lightgbm
    from heliostat.train.lightgbm.trainer import LightGBMTrainer

_HOME = {
    "LightGBMCheckpoint": "checkpoint",
    "LightGBMConfig": "config",
    "LightGBMTrainer": "trainer",
    "RayTrainReportCallback": "callback",
    "get_network_params": "config",
    "normalize_pandas_for_lightgbm": "frames",
}

__all__ = [
    "LightGBMCheckpoint",
    "LightGBMConfig",
    "LightGBMTrainer",
    "RayTrainReportCallback",
    "get_network_params",
    "normalize_pandas_for_lightgbm",
]

__getattr__, __dir__ = lazy.names(__name__, _HOME)
