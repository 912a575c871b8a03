"""Small things."""

from __future__ import annotations

from heliostat.core.platform import settings


def get_node_instance_id() -> str:
    """Return the cloud's name for this machine; empty where it is not set.

    Examples:
        >>> from ray.util import get_node_instance_id
        >>> isinstance(get_node_instance_id(), str)
        True
    """
    return settings.text("CLOUD_INSTANCE_ID")
