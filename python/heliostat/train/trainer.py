"""``BaseTrainer`` where Ray has it."""

from __future__ import annotations

from heliostat.train.base_trainer import BaseTrainer

__all__ = ["BaseTrainer"]
