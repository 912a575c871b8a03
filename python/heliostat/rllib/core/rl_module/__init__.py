"""Modules: the neural networks of agents."""

from __future__ import annotations

from heliostat.rllib.core.rl_module.multi_rl_module import MultiRLModule, MultiRLModuleSpec
from heliostat.rllib.core.rl_module.rl_module import RLModule, RLModuleSpec

__all__ = ["MultiRLModule", "MultiRLModuleSpec", "RLModule", "RLModuleSpec"]
