"""Coroutines that nobody awaits: the event loop alone would let them be collected before they end."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


class Tasks:
    """Holds each coroutine until it has ended."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[None]] = set()

    def start(self, steps: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine on the event loop of this thread."""
        task = asyncio.get_running_loop().create_task(steps)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
