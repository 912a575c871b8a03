"""Serializers for classes that cannot be pickled as they are."""

from __future__ import annotations

from heliostat.core.serialize import deregister_serializer, register_serializer

__all__ = ["deregister_serializer", "register_serializer"]
