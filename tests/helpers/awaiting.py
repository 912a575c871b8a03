"""Makers of objects and consumers that await them, which workers import, too."""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Iterator
from typing import Any

import numpy as np
import ray

KIB, MIB = 1 << 10, 1 << 20
SIZES = [10, 99 * KIB, 101 * KIB, MIB, 20 * MIB]
LIMIT_S = 60

Checksum = tuple[int, int, int]


def array(size: int, fill: int = 7) -> np.ndarray:
    return np.full(size, fill, np.uint8)


def checksum(value: Any) -> Checksum:
    return len(value), int(value[0]), int(value[-1])


@ray.remote(num_cpus=0)
def make(size: int, _gate: bool) -> np.ndarray:
    return array(size)


@ray.remote(num_cpus=0)
def make_put(size: int, _gate: bool) -> list[Any]:
    return [ray.put(array(size))]


@ray.remote(num_cpus=0)
def make_items(sizes: list[int], _gate: bool) -> Iterator[np.ndarray]:
    for size in sizes:
        yield array(size)


@ray.remote(num_cpus=0)
class Maker:
    def make(self, size: int, _gate: bool) -> np.ndarray:
        return array(size)


@ray.remote(num_cpus=0)
class AsyncMaker:
    async def make(self, size: int, _gate: bool) -> np.ndarray:
        await asyncio.sleep(0)
        return array(size)


async def each(refs: list[Any]) -> list[Checksum]:
    return [checksum(await ref) for ref in refs]


async def gather(refs: list[Any]) -> list[Checksum]:
    return [checksum(value) for value in await asyncio.gather(*refs)]


async def tasks(refs: list[Any]) -> list[Checksum]:
    async def one(ref: Any) -> Checksum:
        return checksum(await ref)

    wanted = [asyncio.ensure_future(one(ref)) for ref in refs]
    _, late = await asyncio.wait(wanted, timeout=LIMIT_S)
    assert not late
    return [task.result() for task in wanted]


async def as_future(refs: list[Any]) -> list[Checksum]:
    return [checksum(await future) for future in [ref.as_future() for ref in refs]]


async def wrapped(refs: list[Any]) -> list[Checksum]:
    futures = [asyncio.wrap_future(ref.future()) for ref in refs]
    return [checksum(await future) for future in futures]


async def as_completed(refs: list[Any]) -> list[Checksum]:
    futures = [ref.future() for ref in refs]

    def threads() -> list[Checksum]:
        done = concurrent.futures.as_completed(futures, timeout=LIMIT_S)
        assert len(list(done)) == len(futures)
        return [checksum(future.result()) for future in futures]

    return await asyncio.get_running_loop().run_in_executor(None, threads)


CONSUMERS = [each, gather, tasks, as_future, wrapped, as_completed]


async def consume(consumer: int, refs: list[Any], gate: Any) -> list[Checksum]:
    """The result of the consumer, which has begun to wait when the gate opens."""
    waiting = asyncio.ensure_future(CONSUMERS[consumer](refs))
    await asyncio.sleep(0)
    if gate is not None:
        await gate.open.remote()
    return await asyncio.wait_for(waiting, LIMIT_S)


@ray.remote(num_cpus=0)
def consume_in_task(consumer: int, refs: list[Any], gate: Any) -> list[Checksum]:
    return asyncio.run(consume(consumer, refs, gate))


@ray.remote(num_cpus=0)
class Consumer:
    async def consume(self, consumer: int, refs: list[Any], gate: Any) -> list[Checksum]:
        return await consume(consumer, refs, gate)
