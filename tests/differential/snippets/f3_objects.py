"""F3: objects and references."""

from __future__ import annotations

import asyncio
import concurrent.futures
import gc
import pickle
import threading
import time
from typing import Any

import numpy as np
import ray
from kit import driver, outcome, snippet


@ray.remote
def same(x: Any) -> Any:
    return x


@ray.remote
def slow(seconds: float, value: Any = None) -> Any:
    time.sleep(seconds)
    return value


@ray.remote
def fail(message: str) -> None:
    raise ValueError(message)


@ray.remote
def count(n: int) -> Any:
    yield from range(n)


@snippet("F3.01")
def getting() -> Any:
    refs = [ray.put(i) for i in range(3)]
    late = slow.remote(30)
    begun = time.monotonic()
    early = outcome(lambda: ray.get([late, fail.remote("early")]), "early")
    quick = time.monotonic() - begun < 20
    found = {
        "list": ray.get(refs),
        "empty": ray.get([]),
        "tuple": outcome(lambda: ray.get(tuple(refs)), "invalid type of object refs"),
        "dict": outcome(lambda: ray.get({}), "invalid type of object refs"),
        "int": outcome(lambda: ray.get(3), "invalid type of object refs"),
        "none": outcome(lambda: ray.get(None), "invalid type of object refs"),
        "set": outcome(lambda: ray.get(set(refs))),
        "mixed": outcome(lambda: ray.get([refs[0], 3]), "int"),
        "nested": outcome(lambda: ray.get([refs])),
        "first error": [early, quick],
        "timeout": outcome(lambda: ray.get(late, timeout=0.1), "timed out"),
        "poll": outcome(lambda: ray.get(late, timeout=0), "timed out"),
        "poll ready": ray.get(refs[0], timeout=0),
        "negative": outcome(lambda: ray.get(refs[0], timeout=-1), "timeout"),
        "text timeout": outcome(lambda: ray.get(refs[0], timeout="1")),
        "positional": outcome(lambda: ray.get(refs[0], 1)),
        "twice": ray.get([refs[0], refs[0]]),
        "generator": type(ray.get(count.remote(1))).__name__,
        "same value": ray.get(refs[0]) == ray.get(refs[0]),
        "actor handle": outcome(lambda: ray.get(ray.remote(type("A", (), {})).remote())),
    }
    ray.cancel(late, force=True)
    return found


@snippet("F3.02")
def references() -> Any:
    ref, task = ray.put(5), same.remote(7)

    async def go() -> Any:
        slower = slow.remote(0.3, "s")
        return [
            await ref,
            await asyncio.gather(ref, task),
            await asyncio.wait_for(task, 10),
            len((await asyncio.wait([asyncio.wrap_future(slower.future())]))[0]),
            await asyncio.wrap_future(ref.future()),
            await _caught(fail.remote("awaited")),
        ]

    async def _caught(awaitable: Any) -> Any:
        try:
            await awaitable
        except ValueError as error:
            return ["ValueError", "awaited" in str(error)]

    future = slow.remote(0.2, "f").future()
    failed = fail.remote("future").future()
    return {
        "repr": repr(ref) == f"ObjectRef({ref.hex()})",
        "hex": len(ref.hex()),
        "binary": len(ref.binary()),
        "task": [type(task.task_id()).__name__, task.task_id().hex() in task.hex()],
        "job": ref.job_id().hex() == ray.get_runtime_context().get_job_id(),
        "put task": type(ref.task_id()).__name__,
        "async": asyncio.run(go()),
        "future": [isinstance(future, concurrent.futures.Future), future.result(20), future.done()],
        "failed": outcome(lambda: failed.result(20), "future"),
        "callback": _callback(slow.remote(0.1, "cb")),
        "hash": len({ref, ray.get([ray.put([ref])])[0][0]}),
        "bool": bool(ref),
        "equal": [ref == ref, ref != task, ref == 3],
        "iterate": outcome(lambda: list(ref)),
        "call_site": type(ref.call_site()).__name__,
        "nil": ray.ObjectRef.nil().is_nil(),
        "cloudpickle": ray.get(ray.cloudpickle.loads(ray.cloudpickle.dumps(ref))),
        "pickle": outcome(lambda: ray.get(pickle.loads(pickle.dumps(ref)))),
        "owner": outcome(lambda: len(ref.owner_address()) > 0),
    }


def _callback(ref: Any) -> Any:
    seen: list[Any] = []
    event = threading.Event()

    def done(value: Any) -> None:
        seen.append(value)
        event.set()

    ref._on_completed(done)
    event.wait(20)
    return seen


@snippet("F3.07", "F3.11", "F3.12")
def putting() -> Any:
    lock = threading.Lock()

    class Custom:
        def __init__(self, x: int) -> None:
            self.x = x

    class Reduced:
        def __init__(self, x: int) -> None:
            self.x = x

        def __reduce__(self) -> Any:
            return Reduced, (self.x + 1,)

    found = {
        "ref": outcome(lambda: ray.put(ray.put(1)), "objectref", "list"),
        "lock": outcome(lambda: ray.put(lock), "serialize", "lock"),
        "arg": outcome(lambda: same.remote(lock), "serialize", "same"),
        "closure": outcome(lambda: ray.remote(lambda: lock).remote(), "serialize"),
        "returned": outcome(lambda: ray.get(ray.remote(threading.Lock).remote()), "pickle"),
        "owner": outcome(lambda: ray.put(1, _owner=3), "_owner"),
        "handle": outcome(lambda: type(ray.get(ray.put(ray.remote(Custom).remote(1)))).__name__),
        "reduce": ray.get(ray.put(Reduced(1))).x,
        "values": [
            ray.get(ray.put(v))
            for v in (None, True, 1, 1.5, "text", b"bytes", (1, 2), [1], {"a": {1, 2}}, 1 << 80)
        ],
        "generator": outcome(lambda: ray.put(x for x in [1]), "generator"),
        "keyword": outcome(lambda: ray.get(ray.put(value=3))),
        "nothing": outcome(lambda: ray.put()),
    }
    ray.util.register_serializer(
        Custom, serializer=lambda c: c.x * 10, deserializer=lambda x: Custom(x + 1)
    )
    found["custom"] = ray.get(ray.put(Custom(2))).x
    found["in a task"] = ray.get(ray.remote(lambda c: c.x).remote(Custom(2)))
    ray.util.deregister_serializer(Custom)
    found["deregistered"] = ray.get(ray.put(Custom(2))).x
    found["again"] = outcome(lambda: ray.util.deregister_serializer(Custom))
    found["inspect"] = outcome(lambda: _inspect(lock))
    found["inspect good"] = outcome(lambda: _inspect(3))
    return found


def _inspect(value: Any) -> Any:
    import contextlib
    import io

    from ray.util import inspect_serializability

    def closure() -> Any:
        return value

    with contextlib.redirect_stdout(io.StringIO()) as out:
        good, failures = inspect_serializability(closure, name="mine")
    names = sorted(f.path for f in failures)
    return [good, names, "mine" in out.getvalue()]


@snippet("F3.08")
def waiting() -> Any:
    a, b = ray.put(1), ray.put(2)
    late = slow.remote(30)

    def sizes(*args: Any, **kwargs: Any) -> Any:
        ready, rest = ray.wait(*args, **kwargs)
        names = {a: "a", b: "b", late: "late"}
        return [names.get(r, "?") for r in ready], [names.get(r, "?") for r in rest]

    found = {
        "one": sizes([a, late]),
        "order": sizes([late, b, a], num_returns=2),
        "limit": sizes([a, b], num_returns=1),
        "timeout": sizes([late], timeout=0.1),
        "zero timeout": sizes([late], timeout=0),
        "all with timeout": sizes([a, late, b], num_returns=3, timeout=0.2),
        "empty": ray.wait([]),
        "type": type(ray.wait([a])).__name__,
        "local": sizes([a], fetch_local=False),
        "single": outcome(lambda: ray.wait(a), "list"),
        "tuple": outcome(lambda: ray.wait((a, b)), "list"),
        "set": outcome(lambda: ray.wait({a, b})),
        "not ref": outcome(lambda: ray.wait([1]), "objectref"),
        "duplicates": outcome(lambda: ray.wait([a, a]), "unique"),
        "too many": outcome(lambda: ray.wait([a], num_returns=2), "num_returns"),
        "none": outcome(lambda: ray.wait([a], num_returns=0), "num_returns"),
        "negative returns": outcome(lambda: ray.wait([a], num_returns=-1), "num_returns"),
        "negative timeout": outcome(lambda: ray.wait([a], timeout=-1), "timeout"),
        "empty with number": outcome(lambda: ray.wait([], num_returns=1)),
        "failed is ready": len(ray.wait([fail.remote("x")], timeout=20)[0]),
        "positional": outcome(lambda: ray.wait([a], 1)),
        "generator": [len(x) for x in ray.wait([count.remote(1)], timeout=20)],
        "generator single": outcome(lambda: ray.wait(count.remote(1), timeout=5)),
        "float": outcome(lambda: ray.wait([a], num_returns=1.0)),
    }
    ray.cancel(late, force=True)
    return found


@snippet("F3.03", "F3.09", cluster={"num_cpus": 4, "object_store_memory": 200 << 20})
def counting() -> Any:
    @ray.remote
    class Keeper:
        def keep(self, refs: Any) -> None:
            self.refs = refs

        def read(self) -> Any:
            return ray.get(self.refs[0])[0].item()

        def make(self) -> Any:
            return ray.put(np.full(10, 4))

    @ray.remote
    def makes() -> Any:
        return [ray.put(np.full(200_000, 3))]

    keeper = Keeper.remote()
    ref = ray.put(np.full(300_000, 7))
    ray.get(keeper.keep.remote([ref]))
    del ref
    gc.collect()
    found = {"borrowed": ray.get(keeper.read.remote())}
    outer = ray.put([ray.put(np.full(300_000, 5))])
    gc.collect()
    found["nested"] = ray.get(ray.get(outer)[0])[0].item()
    found["returned"] = ray.get(ray.get(makes.remote())[0])[0].item()
    inner = ray.get(keeper.make.remote())
    found["from actor"] = ray.get(inner)[0].item()
    # Far more than the store holds at once: what nobody refers to makes room.
    for _ in range(20):
        ray.put(np.zeros(25 << 20, np.uint8))
    found["churn"] = "done"
    return found


@snippet("F3.04", "F3.10", "F3.15")
def zero_copy() -> Any:
    array = np.arange(1_000_000)
    ref = ray.put(array)
    one, two = ray.get(ref), ray.get(ref)

    @ray.remote
    def look(x: Any) -> Any:
        return bool(x.flags.writeable), bool(x.flags.owndata), int(x.sum())

    class Buffer:
        def __init__(self, data: Any) -> None:
            self.data = data

        def __reduce_ex__(self, protocol: int) -> Any:
            if protocol >= 5:
                return Buffer, (pickle.PickleBuffer(self.data),)
            return Buffer, (bytes(self.data),)

    back = ray.get(ray.put(Buffer(bytearray(1_000_000))))
    return {
        "writable": bool(one.flags.writeable),
        "write": outcome(lambda: one.__setitem__(0, 1), "read-only"),
        "shared": bool(np.shares_memory(one, two)),
        "task": ray.get(look.remote(ref)),
        "by value": ray.get(look.remote(array)),
        "small": bool(ray.get(ray.put(np.arange(10))).flags.writeable),
        "bytes": type(ray.get(ray.put(b"x" * 1_000_000))).__name__,
        "bytearray": type(ray.get(ray.put(bytearray(1_000_000)))).__name__,
        "buffer": [type(back.data).__name__, memoryview(back.data).readonly],
        "in containers": [
            bool(ray.get(ray.put({"a": [array]}))["a"][0].flags.writeable),
            ray.get(ray.put((array, 1)))[1],
        ],
        "fortran": bool(
            ray.get(ray.put(np.asfortranarray(np.ones((900, 900))))).flags.f_contiguous
        ),
        "objects": ray.get(ray.put(np.array([{"a": 1}, None], dtype=object))).tolist(),
        "structured": str(ray.get(ray.put(np.zeros(3, dtype=[("a", "i4")]))).dtype),
        "scalar": [type(ray.get(ray.put(np.float32(1.5)))).__name__],
        "empty": ray.get(ray.put(np.zeros((0, 3)))).shape,
    }


@snippet("F3.05", "F3.06", cluster=None)
def full_stores() -> Any:
    return {
        "spills": driver(
            """
            import numpy as np, ray
            ray.init(num_cpus=1, object_store_memory=100 << 20, include_dashboard=False)
            refs = [ray.put(np.full(20 << 20, i, np.uint8)) for i in range(10)]
            print(">", [int(ray.get(r)[5]) for r in refs])
            """,
            timeout=90,
        ),
        "too large": driver(
            """
            import numpy as np, ray
            ray.init(num_cpus=1, object_store_memory=80 << 20, include_dashboard=False)
            try:
                ref = ray.put(np.zeros(200 << 20, np.uint8))
                print(">", int(ray.get(ref).nbytes))
            except Exception as error:
                print(">", type(error).__name__)
            """,
            timeout=90,
        ),
        "arguments and results": driver(
            """
            import numpy as np, ray
            ray.init(num_cpus=3, object_store_memory=100 << 20, include_dashboard=False)
            more = ray.remote(lambda x: np.full(30 << 20, x[-1] + 1, np.uint8))
            refs = [more.remote(np.full(30 << 20, i, np.uint8)) for i in range(6)]
            print(">", [int(ray.get(r)[5]) for r in refs])
            """,
            timeout=90,
        ),
    }


@snippet("F3.06", "F0.11", cluster=None)
def spilling_folder() -> Any:
    return driver(
        """
        import os, tempfile, numpy as np, ray
        folder = tempfile.mkdtemp()
        ray.init(num_cpus=1, object_store_memory=100 << 20, include_dashboard=False,
                 object_spilling_directory=folder)
        refs = [ray.put(np.full(20 << 20, i, np.uint8)) for i in range(10)]
        print(">", [int(ray.get(r)[5]) for r in refs])
        print(">", any(files for _, _, files in os.walk(folder)))
        ray.shutdown()
        print(">", any(files for _, _, files in os.walk(folder)))
        """,
        timeout=90,
    )


@snippet("F3.13", "F3.14", "F3.17")
def losing() -> Any:
    import ray.exceptions as errors

    @ray.remote
    def big(n: int) -> Any:
        return np.full(500_000, n)

    from ray.internal import free

    put = ray.put(np.zeros(500_000))
    made = big.remote(3)
    ray.wait([made])
    free([put, made])
    time.sleep(1)
    return {
        "freed put": outcome(lambda: ray.get(put, timeout=20), "free"),
        "freed task": outcome(lambda: ray.get(made, timeout=20)),
        "lost": [
            issubclass(c, errors.ObjectLostError)
            for c in (
                errors.ObjectFreedError,
                errors.OwnerDiedError,
                errors.ObjectFetchTimedOutError,
            )
        ],
    }


@snippet("F3.16", cluster=None)
def out_of_band() -> Any:
    return driver(
        """
        import ray
        ray.init(num_cpus=1, include_dashboard=False)
        ref = ray.put(1)
        try:
            ray.cloudpickle.dumps(ref)
            print("> fine")
        except Exception as error:
            print(">", type(error).__name__)
        print(">", ray.get(ray.get(ray.put([ref]))[0]))
        """,
        env={"RAY_allow_out_of_band_object_ref_serialization": "0"},
    )


@snippet("F3.17")
def locations() -> Any:
    from ray import experimental

    ref = ray.put(np.zeros(500_000))
    small = same.remote(1)
    ray.get(small)
    place = experimental.get_object_locations([ref])[ref]
    local = experimental.get_local_object_locations([ref])[ref]
    return {
        "keys": sorted(place),
        "node": place["node_ids"] == [ray.get_runtime_context().get_node_id()],
        "size": place["object_size"] > 4_000_000,
        "local": sorted(local),
        "spilled": place.get("did_spill"),
        "small": outcome(lambda: experimental.get_object_locations([small])[small]["node_ids"]),
    }


@snippet("F3.01", "F5.09", cluster=None)
def interrupted_get() -> Any:
    return driver(
        """
        import os, signal, threading, time, ray
        ray.init(num_cpus=1, include_dashboard=False)
        ref = ray.remote(lambda: time.sleep(60)).remote()
        threading.Timer(1, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        begun = time.monotonic()
        try:
            ray.get(ref)
        except KeyboardInterrupt:
            print("> interrupted", time.monotonic() - begun < 20)
        """
    )
