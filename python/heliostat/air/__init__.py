"""Ray's older configurations, for trainers and searches alike, and the integrations with tracking tools."""

from heliostat.air.config import CheckpointConfig, FailureConfig, RunConfig, ScalingConfig
from heliostat.train.result import Result

__all__ = ["CheckpointConfig", "FailureConfig", "Result", "RunConfig", "ScalingConfig"]
