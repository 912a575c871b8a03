"""Ray's module of DAGNode."""

from __future__ import annotations

from heliostat.core.calls.graph import DAGNode

__all__ = ["DAGNode"]
