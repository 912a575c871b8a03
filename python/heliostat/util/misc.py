"""Small things."""

from __future__ import annotations

import os
from typing import Any

from heliostat.core.language import client


def get_node_instance_id() -> str:
    """What the cloud calls this machine; empty where nobody said."""
    return os.environ.get("RAY_CLOUD_INSTANCE_ID", "")


def connect(*args: Any, **kwargs: Any) -> None:
    """Connect through a proxy (deprecated)."""
    client()


def disconnect() -> None:
    """End the connection through a proxy (deprecated)."""
    client()
