"""``ray.train._internal.syncer``: ``SyncConfig`` under Ray's file of it."""

from heliostat.train import SyncConfig

__all__ = ["SyncConfig"]
