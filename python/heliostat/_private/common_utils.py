"""``ray._common.utils``: the one function of it that programs import."""

from __future__ import annotations

import asyncio
import contextlib
import warnings


def get_or_create_event_loop() -> asyncio.AbstractEventLoop:
    """The loop that runs in this thread, else the thread's own; where it has none, a new one to keep."""
    with contextlib.suppress(RuntimeError):
        return asyncio.get_running_loop()
    with contextlib.suppress(RuntimeError), warnings.catch_warnings():
        # Some releases of Python warn where they make one, others raise.
        warnings.simplefilter("ignore", DeprecationWarning)
        return asyncio.get_event_loop()
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    return loop
