"""Where Ray has FunctionNode."""

from __future__ import annotations

from heliostat.core.graph import FunctionNode

__all__ = ["FunctionNode"]
