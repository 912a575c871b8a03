"""The context of the running code."""

from __future__ import annotations

from heliostat.core.runtime_context import RuntimeContext, get_runtime_context

__all__ = ["RuntimeContext", "get_runtime_context"]
