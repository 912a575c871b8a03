"""``UserCallback`` where Ray has it."""

from heliostat.train.callbacks import UserCallback

__all__ = ["UserCallback"]
