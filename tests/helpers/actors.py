"""Actors that many tests use."""

from __future__ import annotations

import asyncio
import os

import ray


@ray.remote
class Counter:
    """Counts."""

    def __init__(self, start: int = 0) -> None:
        self.i = start

    def incr(self, by: int = 1) -> int:
        self.i += by
        return self.i

    def get(self) -> int:
        return self.i

    def pid(self) -> int:
        return os.getpid()

    def assigned(self) -> dict[str, float]:
        return dict(ray.get_runtime_context().get_assigned_resources())

    def fail(self) -> None:
        raise KeyError("asked for")

    def crash(self) -> None:
        os._exit(1)


@ray.remote(num_cpus=0)
class Gate:
    """Calls that wait for `opened` give their value once somebody opens."""

    def __init__(self) -> None:
        self.event = asyncio.Event()

    async def opened(self) -> int:
        await self.event.wait()
        return 1

    async def open(self) -> None:
        self.event.set()
