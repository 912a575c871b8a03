"""``Result`` under its older path."""

from heliostat.train.result import Result

__all__ = ["Result"]
