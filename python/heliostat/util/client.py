"""Whether this driver speaks to its cluster through Ray Client, which is not in this release."""

from __future__ import annotations

__all__ = ["RayAPIStub", "ray"]


class RayAPIStub:
    """What ``ray.util.client.ray`` is. A driver here is part of its cluster, never a client of it."""

    def is_connected(self) -> bool:
        """``False``."""
        return False


ray = RayAPIStub()
"""The one stub of this process."""
