"""Ray's module of ClassMethodNode and ClassNode."""

from __future__ import annotations

from heliostat.core.calls.graph import ClassMethodNode, ClassNode

__all__ = ["ClassMethodNode", "ClassNode"]
