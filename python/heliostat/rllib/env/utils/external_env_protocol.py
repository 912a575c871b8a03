"""The messages of external environments, under the name of earlier releases."""

from __future__ import annotations

from heliostat.rllib.env.external.rllink import (
    RLlink,
    get_rllink_message,
    send_rllink_message,
)

__all__ = ["RLlink", "get_rllink_message", "send_rllink_message"]
