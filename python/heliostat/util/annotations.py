"""Marks of the public API's stability."""

from __future__ import annotations

from heliostat.core.platform.annotations import (
    AnnotationType,
    Deprecated,
    DeveloperAPI,
    PublicAPI,
    RayDeprecationWarning,
)

__all__ = [
    "AnnotationType",
    "Deprecated",
    "DeveloperAPI",
    "PublicAPI",
    "RayDeprecationWarning",
]
