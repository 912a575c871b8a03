"""``ray.train._internal.utils``: where worker groups of programs meet."""

from __future__ import annotations

from heliostat._private.network_util import get_address_and_port

__all__ = ["get_address_and_port"]
