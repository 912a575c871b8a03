"""Schedules of settings."""

from __future__ import annotations

from heliostat.rllib.utils.schedules.scheduler import Scheduler

__all__ = ["Scheduler"]
