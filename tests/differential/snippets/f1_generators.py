"""F1: generator tasks past their first use: errors, retries, early ends, odd values."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from typing import Any

import ray
from kit import new_log, outcome, said, say, snippet, until


@ray.remote
def count(n: int, start: int = 0) -> Any:
    for i in range(start, start + n):
        yield i


def _values(stream: Any) -> Any:
    return [outcome(lambda r=ref: ray.get(r, timeout=30)) for ref in stream]


@snippet("F1.09", "F1.10", "F1.11")
def retried_streams() -> Any:
    @ray.remote(max_retries=2, retry_exceptions=[ValueError])
    def fails(path: str, times: int, kind: Any = ValueError) -> Any:
        say(path, "x")
        yield 1
        yield 2
        if len(said(path)) <= times:
            raise kind("in the middle")
        yield 3

    @ray.remote(max_retries=2)
    def crashes(path: str, times: int) -> Any:
        say(path, "x")
        yield 1
        yield 2
        if len(said(path)) <= times:
            time.sleep(0.5)  # for the items to be on their way
            os.kill(os.getpid(), signal.SIGKILL)
        yield 3

    def tried(task: Any, *args: Any) -> Any:
        path = new_log()
        return _values(task.remote(path, *args)), said(path)

    return {
        "error once": tried(fails, 1),
        "error twice": tried(fails, 2),
        "error always": tried(fails, 9),
        "error not listed": tried(fails, 9, KeyError),
        "crash once": tried(crashes, 1),
        "crash always": tried(crashes, 9),
        "crash unretried": tried(crashes.options(max_retries=0), 9),
    }


@snippet("F1.09")
def ends_of_streams() -> Any:
    @ray.remote
    def slow(path: str) -> Any:
        try:
            for i in range(100):
                say(path, "x")
                yield i
                time.sleep(0.05)
        finally:
            say(path, "end")

    @ray.remote
    def short(path: str) -> Any:
        for i in range(5):
            yield i
            time.sleep(0.05)
        say(path, "end")

    found: dict[str, Any] = {}
    path = new_log()
    stream = slow.remote(path)
    ray.get(next(stream))
    found["close"] = outcome(stream.close)
    del stream
    path = new_log()
    short.remote(path)  # nobody keeps it
    found["dropped at once"] = bool(until(lambda: "end" in said(path), 10))
    path = new_log()
    stream = short.remote(path)
    ray.get(next(stream))
    del stream
    found["dropped midway"] = bool(until(lambda: "end" in said(path), 10))
    stream = count.remote(2)
    until(lambda: ray.wait([stream.completed()], timeout=1)[0])
    found["finished unread"] = stream.is_finished()
    found["all"] = _values(stream)
    found["finished"] = stream.is_finished()
    found["again"] = outcome(lambda: next(stream))
    found["send"] = outcome(lambda: count.remote(1).send(None))
    found["throw"] = outcome(lambda: count.remote(1).throw(ValueError("x")))
    found["kept"] = [ray.get(r) for r in list(count.remote(4))[::-1]]
    return found


@snippet("F1.09")
def values_of_streams() -> Any:
    @ray.remote
    def yields(values: Any) -> Any:
        for value in values:  # `yield from` a tuple does not work on Ray
            yield value

    @ray.remote
    def stops() -> Any:
        yield 1
        raise StopIteration("odd")

    @ray.remote
    def returns() -> Any:
        yield 1
        return 2

    @ray.remote
    def unpicklable() -> Any:
        import threading

        yield 1
        yield threading.Lock()
        yield 3

    @ray.remote
    def refs() -> Any:
        yield ray.put("inner")

    @ray.remote
    def inside(n: int) -> Any:
        return [ray.get(r) for r in count.remote(n)]

    @ray.remote
    async def later() -> Any:
        for i in range(3):
            await asyncio.sleep(0)
            yield i

    @ray.remote
    def plain() -> Any:
        return (i for i in range(3))

    @ray.remote
    def large() -> Any:
        import numpy as np

        for i in range(3):
            yield np.full(300_000, i)

    async def with_limit() -> Any:
        stream = count.remote(2)
        first = await asyncio.wait_for(stream.__anext__(), 20)
        rest = [await ref async for ref in stream]
        return [await first, *rest]

    return {
        "errors as values": _values(yields.remote([ValueError("v"), None, [1], {}])),
        "stop": _values(stops.remote()),
        "returned": _values(returns.remote()),
        "unpicklable": _values(unpicklable.remote()),
        "refs": [ray.get(ray.get(r)) for r in refs.remote()],
        "inside a task": ray.get(inside.remote(3)),
        "async": outcome(lambda: _values(later.remote())),
        "returns a generator": outcome(lambda: ray.get(plain.remote())),
        "returns one, three refs": outcome(lambda: ray.get(plain.options(num_returns=3).remote())),
        "large": [int(ray.get(r).sum()) for r in large.remote()],
        "failed argument": outcome(
            lambda: _values(count.remote(ray.remote(lambda: 1 / 0).remote()))
        ),
        "ref argument": _values(count.remote(ray.put(2), start=ray.put(5))),
        "asyncio": asyncio.run(with_limit()),
    }


@snippet("F1.09", "F3.08")
def waiting_for_streams() -> Any:
    gate = new_log()

    @ray.remote
    def gated(path: str) -> Any:
        yield 1
        while not os.path.exists(path):
            time.sleep(0.02)
        yield 2

    quick, slow = count.remote(1), gated.remote(gate)
    first = ray.wait([quick, slow], num_returns=2, timeout=20)
    ray.get(next(slow))
    blocked = ray.wait([slow], timeout=0.3)
    before = [slow.next_ready(), slow.is_finished()]
    say(gate, "x")
    ready = ray.wait([slow], timeout=20)
    value = ray.get(next(slow))
    end = ray.wait([slow], timeout=20)
    mixed = ray.wait([count.remote(1), ray.put(1)], num_returns=2, timeout=20)
    return {
        "first": [len(p) for p in first],
        "blocked": [len(p) for p in blocked],
        "before": before,
        "ready": [len(p) for p in ready],
        "value": value,
        "end": [len(p) for p in end],
        "last": outcome(lambda: next(slow)),
        "mixed": [type(x).__name__ for x in mixed[0]],
        "next_ready at the end": outcome(lambda: slow.next_ready() in (True, False)),
    }


@snippet("F1.08", "F1.09")
def generators_of_fixed_number() -> Any:
    @ray.remote(num_returns=3)
    def breaks() -> Any:
        yield 1
        raise ValueError("second")

    @ray.remote(num_returns="dynamic")
    def dynamic() -> Any:
        yield 1
        raise ValueError("second")

    def parts() -> Any:
        return [outcome(lambda r=r: ray.get(r), "second") for r in breaks.remote()]

    def inner() -> Any:
        return [outcome(lambda r=r: ray.get(r), "second") for r in ray.get(dynamic.remote())]

    return {"static": outcome(parts), "dynamic": outcome(inner)}


@snippet("F1.12", "F1.09")
def streams_of_limited_workers() -> Any:
    @ray.remote(max_calls=1)
    def pids(n: int) -> Any:
        for _ in range(n):
            yield os.getpid()

    found = [{ray.get(r) for r in pids.remote(3)} for _ in range(3)]
    return [len(f) for f in found], len(set.union(*found))


@snippet("F1.17", "F1.09")
def options_of_streams() -> Any:
    @ray.remote(_num_objects_per_yield=2)
    def pairs(n: int) -> Any:
        for i in range(n):
            yield i, -i

    return {
        "pairs": outcome(lambda: _values(pairs.remote(2))),
        "explicit": _values(count.options(num_returns="streaming").remote(2)),
        "backpressure 1": _values(count.options(_generator_backpressure_num_objects=1).remote(4)),
        "off": _values(count.options(_generator_backpressure_num_objects=-1).remote(4)),
    }
