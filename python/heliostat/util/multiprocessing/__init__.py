"""``multiprocessing.Pool`` on actors."""

from __future__ import annotations

from multiprocessing import JoinableQueue

from heliostat.util.multiprocessing.pool import (
    AsyncResult,
    Pool,
    PoolTaskError,
    TimeoutError,  # noqa: A004 - the standard library's pool has its own, too
)

__all__ = ["AsyncResult", "JoinableQueue", "Pool", "PoolTaskError", "TimeoutError"]
