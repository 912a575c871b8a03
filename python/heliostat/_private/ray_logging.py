"""The printing of workers' lines by a driver; schedulers set ``ray_logging.RAY_DEDUP_LOGS = 0``."""

from __future__ import annotations

import os
import sys
from types import ModuleType
from typing import Any

from heliostat.core.platform import settings

RAY_DEDUP_LOGS: bool


class _Logging(ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name == "RAY_DEDUP_LOGS":
            return settings.flag("DEDUP_LOGS")
        raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "RAY_DEDUP_LOGS":  # drivers that begin from now on
            os.environ["RAY_DEDUP_LOGS"] = "1" if value else "0"
        else:
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Logging
