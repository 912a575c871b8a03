"""Whether this driver is outside its cluster, and how it is connected then."""

from __future__ import annotations

from typing import Any

from heliostat.core import session
from heliostat.core.driver import remote

__all__ = ["RayAPIStub", "num_connected_contexts", "ray"]


class RayAPIStub:
    """The object ``ray.util.client.ray``. All calls of the API are those of any other driver.

    Examples:
        >>> from ray.util.client import RayAPIStub, ray
        >>> isinstance(ray, RayAPIStub), ray.is_connected()  # a driver outside its cluster is
        (True, False)
    """

    def is_connected(self) -> bool:
        """Whether this process is a driver outside its cluster."""
        return remote.is_connected()

    def connect(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """The same as ``ray.util.connect``.

        Args:
            *args: As of ``ray.util.connect``.
            **kwargs: As of ``ray.util.connect``.

        Returns:
            What is known of the connection.
        """
        return remote.connect(*args, **kwargs)

    def disconnect(self) -> None:
        """The same as ``ray.util.disconnect``."""
        remote.disconnect()


ray = RayAPIStub()
"""The one stub of this process."""


def num_connected_contexts() -> int:
    """The number of this process's connections as a driver outside a cluster.

    Examples:
        >>> from ray.util.client import num_connected_contexts
        >>> num_connected_contexts()  # this driver is a process of the cluster
        0
    """
    return len(session.afar())
