"""The configuration objects of ``heliostat.train`` under their older path."""

from heliostat.train.config import CheckpointConfig, FailureConfig, RunConfig, ScalingConfig

__all__ = ["CheckpointConfig", "FailureConfig", "RunConfig", "ScalingConfig"]
