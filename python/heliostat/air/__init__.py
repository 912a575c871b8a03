"""Ray's older paths to names of ``heliostat.train``, and the integrations with tracking tools.

Only what still has a meaning is here. The logger callbacks of these integrations belong to Ray Tune,
which this release does not have.
"""

from heliostat.train.config import CheckpointConfig, FailureConfig, RunConfig, ScalingConfig
from heliostat.train.result import Result

__all__ = ["CheckpointConfig", "FailureConfig", "Result", "RunConfig", "ScalingConfig"]
