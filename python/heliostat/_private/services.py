"""``ray._private.services``: where this node is."""

from __future__ import annotations

from typing import NoReturn

from heliostat._private import missing
from heliostat.core.state import node_ip_address as get_node_ip_address

__all__ = ["get_node_ip_address"]


def __getattr__(name: str) -> NoReturn:
    raise AttributeError(missing(f"ray._private.services.{name}"))
