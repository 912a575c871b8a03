"""``ray._private.internal_api``: who holds references to what, as text, and the collector of all workers.

``free`` is not here, as it is no more in Ray 2.60: an object's memory is free when nobody refers to it.
"""

from __future__ import annotations

import gc
from typing import NoReturn

from heliostat._private import missing
from heliostat.util.state.gc_command import collect
from heliostat.util.state.memory import memory_summary

__all__ = ["global_gc", "memory_summary"]


def global_gc() -> None:
    """Has Python's garbage collector run here and in all workers, and returns when it has run."""
    gc.collect()
    collect()


def __getattr__(name: str) -> NoReturn:
    raise AttributeError(missing(f"ray._private.internal_api.{name}"))
