"""Ray's module of FunctionNode."""

from __future__ import annotations

from heliostat.core.calls.graph import FunctionNode

__all__ = ["FunctionNode"]
