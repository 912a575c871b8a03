"""Every way to consume values: each takes references and returns their values or errors.

``by_…`` blocks its thread; ``aby_…`` is awaited on an event loop.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import sys
import threading
import time
from typing import Any

import ray

try:
    from tests.programs.kit import LONG_S, Holder, Seen, compare, digest, fold, keys, main, waiting
except ImportError:  # in the text of one program everything is in the same file
    pass


def attempt(read: Any, *given: Any, **named: Any) -> Any:
    """What the call returns or raises."""
    try:
        return read(*given, **named)
    except Exception as error:
        return error


def by_get(refs: list[Any]) -> list[Any]:
    return [attempt(ray.get, ref) for ref in refs]


def by_get_list(refs: list[Any]) -> list[Any]:
    try:
        return list(ray.get(list(refs)))
    except Exception:
        return by_get(refs)


def by_get_timeout(refs: list[Any]) -> list[Any]:
    return [attempt(ray.get, ref, timeout=LONG_S) for ref in refs]


def by_polling(refs: list[Any]) -> list[Any]:
    def poll(ref: Any) -> Any:
        end = time.monotonic() + LONG_S
        while True:
            try:
                return ray.get(ref, timeout=0)
            except ray.exceptions.GetTimeoutError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.002)

    return [attempt(poll, ref) for ref in refs]


def _by_wait(refs: list[Any], **options: Any) -> list[Any]:
    found, rest = {}, list(refs)
    while rest:
        ready, rest = ray.wait(rest, **options)
        found.update((ref, attempt(ray.get, ref)) for ref in ready)
    return [found[ref] for ref in refs]


def by_wait(refs: list[Any]) -> list[Any]:
    return _by_wait(refs)


def by_wait_all(refs: list[Any]) -> list[Any]:
    _ready, rest = ray.wait(list(refs), num_returns=len(refs), timeout=LONG_S)
    return by_get(refs) if not rest else [TimeoutError(f"{rest} not ready")] * len(refs)


def by_wait_timeout(refs: list[Any]) -> list[Any]:
    return _by_wait(refs, timeout=0.005)


def by_wait_unfetched(refs: list[Any]) -> list[Any]:
    return _by_wait(refs, fetch_local=False)


def by_future(refs: list[Any]) -> list[Any]:
    return [attempt(ref.future().result, LONG_S) for ref in refs]


def by_futures_completed(refs: list[Any]) -> list[Any]:
    futures = {ref.future(): ref for ref in refs}
    done = concurrent.futures.as_completed(futures, timeout=LONG_S)
    found = {futures[future]: attempt(future.result) for future in done}
    return [found[ref] for ref in refs]


def by_callback(refs: list[Any]) -> list[Any]:
    """From a callback of the future, which runs in a thread of the runtime."""
    found: dict[Any, Any] = {}
    done = threading.Semaphore(0)
    for ref in refs:

        def note(future: Any, ref: Any = ref) -> None:
            found[ref] = attempt(future.result)
            done.release()

        ref.future().add_done_callback(note)
    for ref in refs:
        if not done.acquire(timeout=LONG_S):
            return [TimeoutError(f"no callback for {ref} among {refs}")] * len(refs)
    return [found[ref] for ref in refs]


def by_as_completed(refs: list[Any]) -> list[Any]:
    done = ray.util.as_completed(list(refs), chunk_size=2, yield_obj_refs=True)
    found = {ref: attempt(ray.get, ref) for ref in done}
    return [found[ref] for ref in refs]


def by_thread(refs: list[Any]) -> list[Any]:
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.extend(by_get(refs)))
    thread.start()
    thread.join()
    return found


def by_pool(refs: list[Any]) -> list[Any]:
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        return list(pool.map(lambda ref: attempt(ray.get, ref), refs))


# As arguments: what another call sees.


def see(value: Any) -> Seen:
    """Runs in a task: the key of what came as its argument."""
    return Seen(keys([seen(by_get, value)])[0])


def see_inside(refs: Any, way: Any) -> list[Any]:
    """Runs in a task: the keys, or the errors, of what came inside a value."""
    refs = refs["refs"] if isinstance(refs, dict) else refs
    return [o if isinstance(o, BaseException) else Seen(o) for o in settle(way, refs)]


def by_argument(refs: list[Any]) -> list[Any]:
    calls = [ray.remote(see).remote(ref) for ref in refs]
    return by_get(calls)


def by_keyword(refs: list[Any]) -> list[Any]:
    calls = [ray.remote(see).options(num_cpus=0).remote(value=ref) for ref in refs]
    return by_get(calls)


def by_list(refs: list[Any]) -> list[Any]:
    call = ray.remote(see_inside).remote(list(refs), by_get_list)
    return list(ray.get(call))


def by_dict(refs: list[Any]) -> list[Any]:
    call = ray.remote(see_inside).remote({"refs": list(refs)}, by_wait)
    return list(ray.get(call))


def by_put(refs: list[Any]) -> list[Any]:
    """Through an object that holds the references."""
    call = ray.remote(see_inside).remote(ray.put(list(refs)), by_future)
    return list(ray.get(call))


# On an event loop.


async def aattempt(ref: Any) -> Any:
    """What awaiting the reference returns or raises."""
    try:
        return await ref
    except Exception as error:
        return error


async def aby_await(refs: list[Any]) -> list[Any]:
    return [await aattempt(ref) for ref in refs]


async def aby_gather(refs: list[Any]) -> list[Any]:
    return list(await asyncio.gather(*refs, return_exceptions=True))


async def aby_wait_for(refs: list[Any]) -> list[Any]:
    waits = [asyncio.wait_for(ref, LONG_S) for ref in refs]
    return list(await asyncio.gather(*waits, return_exceptions=True))


async def aby_wait(refs: list[Any]) -> list[Any]:
    tasks = [asyncio.wrap_future(ref.future()) for ref in refs]
    rest = set(tasks)
    while rest:
        _, rest = await asyncio.wait(rest, return_when=asyncio.FIRST_COMPLETED)
    return [task.exception() or task.result() for task in tasks]


async def aby_as_future(refs: list[Any]) -> list[Any]:
    futures = [ref.as_future() for ref in refs]
    return list(await asyncio.gather(*futures, return_exceptions=True))


async def aby_as_completed(refs: list[Any]) -> list[Any]:
    async def one(i: int, ref: Any) -> tuple[int, Any]:
        return i, (await aby_await([ref]))[0]

    done = asyncio.as_completed([one(i, ref) for i, ref in enumerate(refs)])
    found = dict([await pair for pair in done])
    return [found[i] for i in range(len(refs))]


async def aby_task(refs: list[Any]) -> list[Any]:
    """Each in a task of the loop that a timer has to share the loop with."""
    tasks = [asyncio.ensure_future(aby_await([ref])) for ref in refs]
    while not all(task.done() for task in tasks):
        await asyncio.sleep(0.001)
    return [task.result()[0] for task in tasks]


async def aby_executor(refs: list[Any]) -> list[Any]:
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(None, by_get, refs)


async def aby_argument(refs: list[Any]) -> list[Any]:
    return await aby_await([ray.remote(see).remote(ref) for ref in refs])


async def aby_list(refs: list[Any]) -> list[Any]:
    return list(await ray.remote(see_inside).remote(list(refs), by_get_list))


# What is done with any of them.


def seen(way: Any, value: Any) -> Any:
    """The key of a value, with the references inside consumed in the same way; or the error."""
    if isinstance(value, Seen):
        return value.key
    if not isinstance(value, Holder):
        return value if isinstance(value, BaseException) else attempt(digest, value)
    try:
        return fold("holder", [digest(value.value), *keys(settle(way, value.refs))])
    except Exception as error:
        return error


def settle(way: Any, refs: list[Any]) -> list[Any]:
    """The keys of what the references stand for, or the errors."""
    return [seen(way, value) for value in way(refs)] if refs else []


async def aseen(way: Any, value: Any) -> Any:
    """As ``seen``, on an event loop."""
    if not isinstance(value, Holder):
        return seen(None, value)
    try:
        return fold("holder", [digest(value.value), *keys(await asettle(way, value.refs))])
    except Exception as error:
        return error


async def asettle(way: Any, refs: list[Any]) -> list[Any]:
    return [await aseen(way, value) for value in await way(refs)] if refs else []


def read(where: str, way: Any, refs: list[Any]) -> list[int]:
    """In the body of a call: the keys; the first error is raised."""
    with waiting(where, refs):
        return keys(settle(way, refs))


async def aread(where: str, way: Any, refs: list[Any]) -> list[int]:
    with waiting(where, refs):
        return keys(await asettle(way, refs))


def check(where: str, way: Any, refs: list[Any], expected: list[Any]) -> None:
    """In a driver: each outcome is the expected one."""
    with waiting(where, refs):
        outcomes = settle(way, refs)
    compare(where, outcomes, expected)


async def acheck(where: str, way: Any, refs: list[Any], expected: list[Any]) -> None:
    with waiting(where, refs):
        outcomes = await asettle(way, refs)
    compare(where, outcomes, expected)


def on_loop(*checks: Any) -> None:
    """Run the coroutines side by side on an event loop of this thread."""

    async def gather() -> None:
        await asyncio.gather(*checks)

    asyncio.run(gather())


SYNC = {name: way for name, way in list(globals().items()) if name.startswith("by_")}
ASYNC = {name: way for name, way in list(globals().items()) if name.startswith("aby_")}


if __name__ == "__main__" and "tests.programs.kit" in sys.modules:
    main("", None, globals())
