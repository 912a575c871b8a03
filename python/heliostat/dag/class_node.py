"""Where Ray has ClassMethodNode, ClassNode."""

from __future__ import annotations

from heliostat.core.graph import ClassMethodNode, ClassNode

__all__ = ["ClassMethodNode", "ClassNode"]
