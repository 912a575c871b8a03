"""``ray._private.runtime_env.context``: what a plugin may change of a worker."""

from __future__ import annotations

from typing import NoReturn

from heliostat._private import missing
from heliostat.core.runtime_env.plugin_fields import RuntimeEnvContext

__all__ = ["RuntimeEnvContext"]


def __getattr__(name: str) -> NoReturn:
    raise AttributeError(missing(f"ray._private.runtime_env.context.{name}"))
