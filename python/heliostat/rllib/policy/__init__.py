"""Names of the old API stack that programs of the new one import, and sentences about the others."""

from __future__ import annotations

from heliostat.rllib.policy.policy import PolicySpec
from heliostat.rllib.utils.old_names import refusing

__all__ = ["PolicySpec"]

__getattr__ = refusing("rllib.policy", {}, "ray.rllib.core.rl_module.RLModule")
