"""Task graphs made with ``.bind()``."""

from __future__ import annotations

from heliostat.core.calls.graph import (
    ClassMethodNode,
    ClassNode,
    DAGInputData,
    DAGNode,
    FunctionNode,
    InputAttributeNode,
    InputNode,
    MultiOutputNode,
)

__all__ = [
    "ClassMethodNode",
    "ClassNode",
    "DAGInputData",
    "DAGNode",
    "FunctionNode",
    "InputAttributeNode",
    "InputNode",
    "MultiOutputNode",
]
