"""Streams: generators of tasks and actors, their references, ends and errors."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator

import numpy as np
import ray

from tests.strangers.kit import main, raised, stranger


@ray.remote
def count(n: int) -> Iterator[int]:
    for i in range(n):
        yield i


@stranger("docs: Ray generators", [[0, 1, 2], "StopIteration"])
def a_generator_task() -> object:
    """A task that yields gives a generator of references; after the last one it is StopIteration."""
    generator = count.remote(3)
    found = [ray.get(ref) for ref in generator]
    return [found, type(raised(lambda: next(generator))).__name__]


@stranger("ray#50655", "first before last")
def the_first_item_comes_early() -> object:
    """The first item can be read while the task still runs."""

    @ray.remote
    class Gate:
        def __init__(self) -> None:
            self.event = asyncio.Event()

        async def wait(self) -> None:
            await self.event.wait()

        async def open(self) -> None:
            self.event.set()

    gate = Gate.remote()

    @ray.remote
    def two() -> Iterator[str]:
        yield "first"
        ray.get(gate.wait.remote())
        yield "last"

    generator = two.remote()
    first = ray.get(next(generator))
    ray.get(gate.open.remote())
    return f"{first} before {ray.get(next(generator))}"


@stranger("docs: Ray generators, errors", [[0, 1], "ValueError", "StopIteration"])
def an_error_in_the_middle() -> object:
    """What was yielded before the error can be read; the next reference raises; then it is the end."""

    @ray.remote
    def some() -> Iterator[int]:
        yield 0
        yield 1
        raise ValueError("enough")

    generator = some.remote()
    found = [ray.get(next(generator)) for _ in range(2)]
    error = raised(lambda: ray.get(next(generator)))
    end = raised(lambda: next(generator))
    return [
        found,
        "ValueError" if isinstance(error, ValueError) else repr(error),
        type(end).__name__,
    ]


@stranger("docs: Ray generators, async actors", [[0, 1, 2], [0, 10, 20]])
def generators_of_actors() -> object:
    """Methods of plain and of async actors yield, read by ``for`` and ``async for``."""

    @ray.remote
    class Plain:
        def some(self) -> Iterator[int]:
            for i in range(3):
                yield i

    @ray.remote
    class Async:
        async def some(self) -> AsyncIterator[int]:
            for i in range(3):
                await asyncio.sleep(0)
                yield i * 10

    async def read(actor: ray.actor.ActorHandle) -> list[int]:
        return [await ref async for ref in actor.some.remote()]

    plain, other = Plain.remote(), Async.remote()
    return [[ray.get(ref) for ref in plain.some.remote()], asyncio.run(read(other))]


@stranger("docs: Ray generators, waiting", [True, 2])
def waiting_for_generators() -> object:
    """ray.wait takes generators among references: one is ready when its next item is."""

    @ray.remote
    def never() -> Iterator[int]:
        while True:
            time.sleep(0.05)
        yield 0

    quick, slow = count.remote(2), never.remote()
    ready, rest = ray.wait([quick, slow], num_returns=1)
    ray.cancel(slow)
    return [ready == [quick] and rest == [slow], len([ray.get(ref) for ref in quick])]


@stranger("docs: Ray generators, backpressure", [2, 10])
def a_generator_that_waits_for_its_reader() -> object:
    """_generator_backpressure_num_objects=2: no more than two are ahead of the reader."""

    @ray.remote(num_cpus=0)
    class Seen:
        n = 0

        def add(self) -> None:
            self.n += 1

        def value(self) -> int:
            return self.n

    seen = Seen.remote()

    @ray.remote(_generator_backpressure_num_objects=2)
    def some() -> Iterator[int]:
        for i in range(10):
            ray.get(seen.add.remote())
            yield i

    generator = some.remote()
    ray.wait([generator])
    time.sleep(0.5)
    ahead = ray.get(seen.value.remote())
    return [min(ahead, 2), len(list(generator))]


@stranger("docs: Tasks, dynamic generators", [[0, 1, 2], 3])
def dynamic_returns() -> object:
    """num_returns="dynamic": one reference, whose value has the references of the items."""
    ref = count.options(num_returns="dynamic").remote(3)
    refs = ray.get(ref)
    return [[ray.get(r) for r in refs], len(list(ray.get(ref)))]


@stranger("docs: Pattern: Using generators to reduce heap memory usage", [5, 2_000_000])
def large_items_of_a_generator() -> object:
    """A fixed number of returns by yields: each lies in the store by itself."""

    @ray.remote(num_returns=5)
    def split() -> Iterator[np.ndarray]:
        for _ in range(5):
            yield np.ones(400_000)

    refs = split.remote()
    return [len(refs), int(sum(a.sum() for a in ray.get(refs)))]


@stranger("ray#43914", [0, 1, 2, 3])
def a_generator_whose_worker_dies() -> object:
    """The worker dies in the middle: the stream is made again and goes on where it was."""

    @ray.remote
    class Once:
        done = False

        def first(self) -> bool:
            was, self.done = self.done, True
            return not was

    once = Once.remote()

    @ray.remote(max_retries=3)
    def some() -> Iterator[int]:
        import os

        for i in range(4):
            if i == 2 and ray.get(once.first.remote()):
                os._exit(1)
            yield i

    return [ray.get(ref) for ref in some.remote()]


@stranger("forum: closing a Ray generator early", "next task runs", cluster={"num_cpus": 1})
def a_generator_that_is_dropped() -> object:
    """The reader stops after two items and cancels: the only CPU is free again."""

    @ray.remote
    def endless() -> Iterator[int]:
        i = 0
        while True:
            time.sleep(0.01)
            yield i
            i += 1

    @ray.remote
    def word() -> str:
        return "next task runs"

    generator = endless.remote()
    for _ in range(2):
        ray.get(next(generator))
    ray.cancel(generator)
    del generator
    return ray.get(word.remote(), timeout=60)


@stranger("docs: Ray generators, passing items on", 6)
def items_as_arguments() -> object:
    """References of a stream go into other tasks before their values are there."""

    @ray.remote
    def double(x: int) -> int:
        return 2 * x

    return sum(ray.get([double.remote(ref) for ref in count.remote(3)]))


@stranger(
    "forum: yield from in a remote function",
    [0, 1, 2],
    on_ray="AttributeError",
    why="Ray sends the loop's values into what is yielded from; a range has no send().",
)
def yielding_from_a_range() -> object:
    """A task whose whole body is ``yield from range(3)``."""

    @ray.remote
    def some() -> Iterator[int]:
        yield from range(3)

    try:
        return [ray.get(ref) for ref in some.remote()]
    except AttributeError:
        return "AttributeError"


if __name__ == "__main__":
    main()
