"""Remote functions, for those who want the class by name."""

from __future__ import annotations

from heliostat.core.calls.remote_function import RemoteFunction

__all__ = ["RemoteFunction"]
