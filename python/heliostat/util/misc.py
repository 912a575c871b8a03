"""Small things."""

from __future__ import annotations

from typing import Any

from heliostat.core import settings
from heliostat.core.language import client


def get_node_instance_id() -> str:
    """What the cloud calls this machine; empty where nobody said."""
    return settings.text("CLOUD_INSTANCE_ID")


def connect(*args: Any, **kwargs: Any) -> None:
    """Connect through a proxy (deprecated)."""
    client()


def disconnect() -> None:
    """End the connection through a proxy (deprecated)."""
    client()
