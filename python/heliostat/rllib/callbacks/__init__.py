"""Callbacks of algorithms."""

from __future__ import annotations

from heliostat.rllib.callbacks.callbacks import RLlibCallback

__all__ = ["RLlibCallback"]
