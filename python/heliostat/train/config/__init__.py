"""The configuration objects that a trainer takes. Wrong values fail when they are given."""

from heliostat.train.config.run import (
    CheckpointConfig,
    FailureConfig,
    LoggingConfig,
    RunConfig,
    SyncConfig,
)
from heliostat.train.config.scaling import ScalingConfig

__all__ = [
    "CheckpointConfig",
    "FailureConfig",
    "LoggingConfig",
    "RunConfig",
    "ScalingConfig",
    "SyncConfig",
]
