"""Comet."""

from __future__ import annotations

import importlib
from typing import Any

__all__ = ["CometLoggerCallback"]  # noqa: F822 # it comes by __getattr__


def __getattr__(name: str) -> Any:
    """The logger of Tune, which is a layer above."""
    if name != "CometLoggerCallback":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module("heliostat.tune.logger.comet"), name)
