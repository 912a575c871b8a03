"""``ray._common.utils``: the one function of it that programs import."""

from __future__ import annotations

import asyncio


def get_or_create_event_loop() -> asyncio.AbstractEventLoop:
    """The loop that runs in this thread; where none does, a new one, which is made the thread's."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        loop = asyncio.new_event_loop()
        asyncio.set_event_loop(loop)
        return loop
