"""Runtime environments, as objects."""

from __future__ import annotations

from heliostat.core.runtime_env.document import RuntimeEnv, RuntimeEnvConfig

__all__ = ["RuntimeEnv", "RuntimeEnvConfig"]
