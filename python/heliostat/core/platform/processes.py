"""The stacks of this machine's worker processes, for libraries that report a worker that hangs."""

from __future__ import annotations

from heliostat.core.debug.stacks import children, dumped, shares_stacks

__all__ = ["children", "dumped", "shares_stacks"]
