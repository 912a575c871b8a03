"""Waiting for runners and learners, so that somebody who asks is told what for."""

from __future__ import annotations

import time
from typing import Any

import heliostat

# After so long, and again and again, it is told what is waited for.
TELL_S = 5.0


def wait_for(
    calls: dict[str, Any], told: Any = None, timeout: float | None = None, number: int | None = None
) -> list[Any]:
    """Wait for calls.

    Args:
        calls: References by who answers them.
        told: Who is told of those that take long (``AlgorithmRow``). Default: nobody.
        timeout: For how long, in seconds. Default: without end.
        number: For how many. Default: all.

    Returns:
        The references of those that have answered.
    """
    if not calls:  # nothing is asked of a cluster, which need not be there
        return []
    refs, number = list(calls.values()), len(calls) if number is None else number
    until = None if timeout is None else time.monotonic() + timeout
    has_told = False
    while True:
        left = None if until is None else max(0.0, until - time.monotonic())
        part = left if told is None else min(TELL_S, TELL_S if left is None else left)
        done, late = heliostat.wait(refs, num_returns=number, timeout=part, fetch_local=True)
        if len(done) >= number or (left is not None and left <= (part or 0.0)):
            if has_told:
                told.waits({})
            return done
        by_ref = {ref: who for who, ref in calls.items()}
        told.waits({by_ref[ref]: ref for ref in late})
        has_told = True
