"""Ray's module of DAGInputData, InputAttributeNode and InputNode."""

from __future__ import annotations

from heliostat.core.calls.graph import DAGInputData, InputAttributeNode, InputNode

__all__ = ["DAGInputData", "InputAttributeNode", "InputNode"]
