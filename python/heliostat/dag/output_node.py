"""Ray's module of MultiOutputNode."""

from __future__ import annotations

from heliostat.core.calls.graph import MultiOutputNode

__all__ = ["MultiOutputNode"]
