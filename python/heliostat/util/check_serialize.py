"""Finds out which part of a value cannot be pickled."""

from __future__ import annotations

from heliostat.core.debug.serializability import FailureTuple, inspect_serializability

__all__ = ["FailureTuple", "inspect_serializability"]
