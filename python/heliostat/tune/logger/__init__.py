"""Files for each trial: progress.csv, result.json and TensorBoard's events; a base for loggers of users."""

from __future__ import annotations

from heliostat.tune.logger.files import CSVLoggerCallback, JsonLoggerCallback
from heliostat.tune.logger.logger import LoggerCallback
from heliostat.tune.logger.printed import pretty_print
from heliostat.tune.logger.tensorboardx import TBXLoggerCallback

__all__ = [
    "CSVLoggerCallback",
    "JsonLoggerCallback",
    "LoggerCallback",
    "TBXLoggerCallback",
    "pretty_print",
]
