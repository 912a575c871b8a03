"""``ray._private.internal_api``: who holds references to what, as text.

``free`` is not here, as it is no more in Ray 2.60: an object's memory is free when nobody refers to it.
"""

from __future__ import annotations

from typing import NoReturn

from heliostat._private import missing
from heliostat.util.state.memory import memory_summary

__all__ = ["memory_summary"]


def __getattr__(name: str) -> NoReturn:
    raise AttributeError(missing(f"ray._private.internal_api.{name}"))
