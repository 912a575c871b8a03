"""The id of the only module, under its path of the old API stack."""

from __future__ import annotations

from heliostat.rllib.core import DEFAULT_POLICY_ID
from heliostat.rllib.utils.old_names import refusing

__all__ = ["DEFAULT_POLICY_ID"]

__getattr__ = refusing(
    "rllib.policy.sample_batch", {}, "ray.rllib.core.columns.Columns, and dicts of arrays"
)
