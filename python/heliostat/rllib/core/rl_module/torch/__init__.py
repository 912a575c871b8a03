"""Modules of torch."""

from __future__ import annotations

from heliostat.rllib.core.rl_module.torch.torch_rl_module import TorchRLModule

__all__ = ["TorchRLModule"]
