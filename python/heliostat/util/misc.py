"""Small things."""

from __future__ import annotations

from heliostat.core import settings


def get_node_instance_id() -> str:
    """What the cloud calls this machine; empty where nobody said."""
    return settings.text("CLOUD_INSTANCE_ID")
