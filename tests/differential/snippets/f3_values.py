"""F3: values of every kind through the store, and references in odd places."""

from __future__ import annotations

import array
import asyncio
import concurrent.futures
import dataclasses
import datetime
import gc
import pickle
import time
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import ray
from kit import outcome, snippet


@ray.remote
def same(x: Any) -> Any:
    return x


@ray.remote
def slow(seconds: float, value: Any = None) -> Any:
    time.sleep(seconds)
    return value


def through(value: Any) -> Any:
    return ray.get(ray.put(value))


def shape(value: Any) -> Any:
    flags = value.flags
    kept = [type(value).__name__, str(value.dtype), value.shape]
    return [*kept, bool(flags.writeable), bool(flags.c_contiguous), bool(flags.f_contiguous)]


class Sub(np.ndarray):
    """A subclass that a user could have."""


@snippet("F3.10", "F3.11")
def arrays() -> Any:
    big = np.arange(400_000).reshape(400, 1000)
    source = {
        "every second": big[:, ::2],
        "transposed": big.T,
        "backwards": big[::-1],
        "broadcast": np.broadcast_to(np.arange(1000), (400, 1000)),
        "fortran": np.asfortranarray(big),
        "subclass": big.view(Sub),
        "structured": np.zeros(50_000, dtype=[("a", "i4"), ("b", "f8")]),
        "records": np.rec.array(np.zeros(50_000, dtype=[("a", "i4")])),
        "texts": np.array(["abc"] * 60_000),
        "big endian": np.arange(100_000, dtype=">i4"),
        "times": np.arange("2020-01-01", "2029-01-01", dtype="M8[h]"),
        "half": np.ones(200_000, np.float16),
        "truths": np.ones(400_000, bool),
        "complex": np.ones(50_000, np.complex128),
        "no dimension": np.array(3),
        "empty": np.zeros((0, 3)),
        "small": np.arange(3),
    }
    back = {name: through(value) for name, value in source.items()}
    masked = through(np.ma.masked_greater(big, 5))
    return {
        "shapes": {name: shape(value) for name, value in back.items()},
        "equal": [name for name, value in back.items() if not np.array_equal(value, source[name])],
        "masked": [type(masked).__name__, int(masked.sum())],
        "objects": through(np.array([1, "a", None, {"x": 2}], dtype=object)).tolist(),
        "by task": shape(ray.get(same.remote(big))),
    }


@snippet("F3.10", "F3.11")
def frames_and_tables() -> Any:
    n = 100_000
    frame = pd.DataFrame(
        {
            "a": np.arange(n),
            "b": np.arange(n) * 1.5,
            "kind": pd.Categorical(["x", "y"] * (n // 2)),
            "text": [f"s{i % 7}" for i in range(n)],
        }
    )
    table = pa.table(
        {
            "a": np.arange(n),
            "words": pa.array([f"s{i % 7}" for i in range(n)]).dictionary_encode(),
            "lists": pa.array([[1, 2]] * n),
        }
    )
    back = through(frame)
    changed = through(frame)
    changed["a"] = 1
    changed.loc[0, "b"] = 7.0
    return {
        "frame": [back.equals(frame), list(map(str, back.dtypes))],
        "read-only": bool(back["a"].to_numpy().flags.writeable),
        "changed": [int(changed["a"][5]), float(changed["b"][0])],
        "in place": outcome(lambda: through(frame).iloc.__setitem__((0, 0), 9)),
        "table": [through(table).equals(table), str(through(table).schema)],
        "slice": through(table.slice(10, 5))["a"].to_pylist(),
        "batch": through(table.to_batches()[0]).num_rows,
        "chunks": through(pa.chunked_array([[1, 2], [3]])).num_chunks,
        "nulls": through(pa.array([None, 1, 2], pa.int8())).to_pylist(),
    }


@snippet("F3.11")
def plain_values() -> Any:
    nested: list[Any] = []
    nested.append(nested)
    shared = [1]
    back, looped = through([shared, shared]), through(nested)
    return {
        "memoryview": outcome(lambda: bytes(through(memoryview(b"abc")))),
        "bytes": through(b"x" * 200_000) == b"x" * 200_000,
        "text": through("é" * 200_000) == "é" * 200_000,
        "array": list(through(array.array("d", [1.0, 2.0]))),
        "recursive": looped[0] is looped,
        "shared": back[0] is back[1],
        "range": list(through(range(3))),
        "slice": str(through(slice(1, 2))),
        "ellipsis": through(...) is ...,
        "class": through(dict) is dict,
        "date": str(through(datetime.datetime(2020, 1, 1, tzinfo=datetime.timezone.utc))),
        "exception": outcome(lambda: repr(through(ValueError("x", 1)))),
        "lambda": through(lambda x: x + 1)(1),
        "generator": outcome(lambda: through(x for x in "ab")),
        "module": through(pickle).__name__,
        "nan": str(through(float("nan"))),
        "huge": through(1 << 5000) == 1 << 5000,
        "depth": len(str(through(eval("[" * 90 + "]" * 90)))),
    }


@dataclasses.dataclass
class Box:
    ref: Any


class Carries(Exception):
    def __init__(self, ref: Any) -> None:
        super().__init__(ref)
        self.ref = ref


@ray.remote
class Keeper:
    def __init__(self) -> None:
        self.kept: dict[str, Any] = {}

    def keep(self, name: str, box: Any) -> None:
        self.kept[name] = box[0]

    def give(self, name: str) -> Any:
        return [self.kept[name]]

    def read(self, name: str) -> Any:
        return int(ray.get(self.kept[name])[0])

    def nest(self, box: Any) -> Any:
        return [[{"x": box[0]}]]

    def make(self) -> Any:
        return ray.put(np.full(200_000, 9))


@snippet("F3.02", "F3.09", "F3.03")
def references_in_odd_places() -> Any:
    ref = ray.put(5)

    @ray.remote
    def raises(box: Any) -> None:
        raise Carries(box[0])

    @ray.remote
    def raises_its_own() -> None:
        raise Carries(ray.put(np.full(200_000, 3)))

    def caught(call: Any) -> Any:
        try:
            ray.get(call)
        except Carries as error:
            gc.collect()
            return ray.get(error.ref)

    @ray.remote
    def down(n: int) -> Any:
        return down.remote(n - 1) if n else 7

    def bottom() -> Any:
        value: Any = down.remote(4)
        while isinstance(value, ray.ObjectRef):
            value = ray.get(value)
        return value

    @ray.remote
    def puts() -> Any:
        return [ray.put(np.full(200_000, i)) for i in range(3)]

    captured = ray.put(np.full(200_000, 2))
    first, second = Keeper.remote(), Keeper.remote()

    def hand_on() -> Any:
        held = ray.put(np.full(200_000, 4))
        ray.get(first.keep.remote("a", [held]))
        del held
        again = ray.get(first.give.remote("a"))[0]
        ray.get(second.keep.remote("b", [again]))
        del again
        gc.collect()
        ray.kill(first)
        return ray.get(second.read.remote("b"), timeout=30)

    def owner_dies() -> Any:
        maker = Keeper.remote()
        made = ray.get(maker.make.remote())
        ray.get(second.keep.remote("c", [made]))
        ray.kill(maker)
        time.sleep(1)
        return ray.get(second.read.remote("c"), timeout=30)

    return {
        "key": ray.get(next(iter(through({ref: 1})))),
        "set": ray.get(next(iter(through({ref})))),
        "equal": ref in through(frozenset([ref])),
        "dataclass": ray.get(through(Box(ref)).ref),
        "exception": caught(raises.remote([ref])),
        "exception's own": int(caught(raises_its_own.remote())[0]),
        "tasks of tasks": bottom(),
        "puts of a task": [int(x[0]) for x in ray.get(ray.get(puts.remote()))],
        "closure": int(ray.get(ray.remote(lambda: ray.get(captured)[0]).remote())),
        "keyword": ray.get(same.remote(x=ref)),
        "nested": type(ray.get(same.remote([ref]))[0]).__name__,
        "through actors": ray.get(ray.get(second.nest.remote([ref]))[0][0]["x"]),
        "handed on": hand_on(),
        "owner dies": outcome(owner_dies),
    }


@snippet("F3.01", "F3.08")
def odd_arguments() -> Any:
    ref = ray.put(5)

    @ray.remote
    def items(n: int) -> Any:
        for i in range(n):
            time.sleep(0.2)
            yield i

    def first_of_both() -> Any:
        stream = items.remote(2)
        late = slow.remote(20)
        ready, _ = ray.wait([stream, late], num_returns=1, timeout=10)
        ray.cancel(late, force=True)
        return [ready[0] is stream, ray.get(next(stream))]

    stream = items.remote(1)
    return {
        "none": ray.get(ref, timeout=None),
        "truth": ray.get(ref, timeout=True),
        "numpy": ray.get(ref, timeout=np.float64(1)),
        "array": outcome(lambda: ray.get(np.array([ref], dtype=object))),
        "generator": outcome(lambda: ray.get(r for r in [ref])),
        "text": outcome(lambda: ray.get("abc")),
        "keyword": outcome(lambda: ray.get(object_refs=ref)),
        "other keyword": outcome(lambda: ray.get(refs=ref)),
        "stream": ray.get(stream) is stream,
        "wait numpy": [len(x) for x in ray.wait([ref], num_returns=np.int64(1))],
        "wait truth": [len(x) for x in ray.wait([ref], num_returns=True)],
        "wait generator": outcome(lambda: ray.wait(r for r in [ref])),
        "wait mixed": outcome(lambda: ray.wait([ref, None])),
        "wait keyword": outcome(lambda: len(ray.wait(ray_waitables=[ref])[0])),
        "wait both": first_of_both(),
        "wait twice": outcome(lambda: ray.wait([stream, stream]), "unique"),
    }


@snippet("F3.02")
def futures() -> Any:
    @ray.remote
    def fail() -> None:
        raise ValueError("of the task")

    async def go() -> Any:
        late = slow.remote(30)
        waits = asyncio.ensure_future(_value(late))
        await asyncio.sleep(0.1)
        waits.cancel()
        results = await asyncio.gather(fail.remote(), same.remote(1), return_exceptions=True)
        done = []
        for step in asyncio.as_completed([_value(slow.remote(0.3, "b")), _value(same.remote("a"))]):
            done.append(await step)
        out_of_time = False
        try:
            await asyncio.wait_for(_value(late), 0.1)
        except asyncio.TimeoutError:
            out_of_time = True
        ray.cancel(late, force=True)
        return [
            [isinstance(results[0], ValueError), results[1]],
            done,
            out_of_time,
            await asyncio.wrap_future(same.remote(4).future()),
        ]

    async def _value(awaitable: Any) -> Any:
        return await awaitable

    several = [same.remote(i).future() for i in range(5)]
    found = sorted(f.result() for f in concurrent.futures.as_completed(several, timeout=30))
    return {
        "async": asyncio.run(go()),
        "as completed": found,
        "exception": outcome(lambda: fail.remote().future().result(30), "of the task"),
        "timeout": outcome(lambda: slow.remote(5).future().result(0.1)),
    }
