"""``ray.train.constants`` and ``ray.train.error``."""

from __future__ import annotations

import os
from typing import Any

from heliostat._private.air_constants import (
    EVALUATION_DATASET_KEY,
    MODEL_KEY,
    PREPROCESSOR_KEY,
    TRAIN_DATASET_KEY,
)

__all__ = [
    "CHECKPOINT_DIR_NAME",
    "DEFAULT_STORAGE_PATH",
    "EVALUATION_DATASET_KEY",
    "MODEL_KEY",
    "PREPROCESSOR_KEY",
    "RAY_CHDIR_TO_TRIAL_DIR",
    "TIME_TOTAL_S",
    "TRAIN_DATASET_KEY",
    "WORKER_HOSTNAME",
    "WORKER_NODE_IP",
    "WORKER_PID",
    "_DEPRECATED_VALUE",
]

DEFAULT_STORAGE_PATH = os.path.expanduser("~/ray_results")
CHECKPOINT_DIR_NAME = "checkpoint_dir_name"
TIME_TOTAL_S = "_time_total_s"
WORKER_HOSTNAME, WORKER_NODE_IP, WORKER_PID = "_hostname", "_node_ip", "_pid"
RAY_CHDIR_TO_TRIAL_DIR = "RAY_CHDIR_TO_TRIAL_DIR"  # an environment variable
_DEPRECATED_VALUE: Any = "DEPRECATED"  # of an argument that was not given


class SessionMisuseError(Exception):
    """A function of a training session was called outside of one. Nothing here raises it."""
