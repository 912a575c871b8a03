"""``ray._private.runtime_env.plugin``: the base class of plugins for runtime environments."""

from __future__ import annotations

from typing import NoReturn

from heliostat._private import missing
from heliostat.core.runtime_env.plugin_fields import RuntimeEnvPlugin

__all__ = ["RuntimeEnvPlugin"]


def __getattr__(name: str) -> NoReturn:
    raise AttributeError(missing(f"ray._private.runtime_env.plugin.{name}"))
