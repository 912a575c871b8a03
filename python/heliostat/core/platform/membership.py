"""The nodes of the cluster as they join and leave, for libraries that place workers on them."""

from __future__ import annotations

from heliostat.core.native_types import NodeRow
from heliostat.core.state import members, next_change_of_members

__all__ = ["NodeRow", "members", "next_change_of_members"]
