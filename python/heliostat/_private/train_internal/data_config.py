"""``ray.train._internal.data_config``: ``DataConfig`` under Ray's file of it."""

from heliostat.train import DataConfig

__all__ = ["DataConfig"]
