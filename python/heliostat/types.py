"""Types for annotations."""

from __future__ import annotations

from heliostat._heliostat import ObjectRef

__all__ = ["ObjectRef"]
