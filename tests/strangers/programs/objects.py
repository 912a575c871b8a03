"""Objects: put and get, arrays, references in references, what is shared and what is copied."""

from __future__ import annotations

import collections
import contextlib
import datetime
import decimal
import enum
import gc
import io
import pathlib
import threading
import uuid
from typing import Any

import numpy as np
import ray

from tests.strangers.kit import main, raised, stranger, until


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Linked:
    def __init__(self) -> None:
        self.me = self
        self.rest: list[object] = [self]


class Slotted:
    __slots__ = ("a", "b")

    def __init__(self, a: int) -> None:
        self.a = a


class Connection:
    """Holds what cannot be pickled, and says how it is made again."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.lock = threading.Lock()

    def __reduce__(self) -> Any:
        return Connection, (self.address,)


@stranger("ray#5592", ["ValueError", True])
def an_array_is_read_only() -> object:
    """An array that was got cannot be written; a copy of it can, and the object stays as it is."""
    ref = ray.put(np.zeros(1000))
    got = ray.get(ref)

    def write() -> None:
        got[0] = 1

    error = raised(write)
    mine = got.copy()
    mine[0] = 1
    return [type(error).__name__, bool((ray.get(ref) == 0).all())]


@stranger("ray#23988", "ValueError")
def a_task_cannot_write_its_argument() -> object:
    """An argument that is an array is read-only in the task, also where it is small."""

    @ray.remote
    def edit(a: np.ndarray) -> None:
        a[4] = 100

    error = raised(lambda: ray.get(edit.remote(ray.put(np.arange(100_000)))))
    return "ValueError" if isinstance(error, ValueError) else repr(error)


@stranger("ray#37573", [3, 4999950000])
def a_record_array() -> object:
    """A recarray goes there and back with its fields."""
    records = np.rec.array([(1, 2.0), (3, 4.0)], dtype=[("a", "i8"), ("b", "f8")])
    big = np.rec.fromarrays([np.arange(100_000)], names="x")

    @ray.remote
    def total(r: Any) -> int:
        return int(r.x.sum())

    return [int(ray.get(ray.put(records)).a[1]), ray.get(total.remote(big))]


@stranger("ray#48961", [False, True])
def what_zero_copy_means() -> object:
    """put copies; two gets of a large array in one process share their memory."""
    original = np.random.rand(200_000)
    ref = ray.put(original)
    one, other = ray.get(ref), ray.get(ref)
    return [np.shares_memory(original, one), np.shares_memory(one, other)]


@stranger("StackOverflow: what can be an argument of a Ray task", True)
def many_kinds_of_values() -> object:
    """Values of the standard library go there and back equal."""
    values = [
        None,
        ...,
        {1: {"a": (1, [2, {3}])}},
        frozenset({1, 2}),
        decimal.Decimal("1.10"),
        datetime.datetime(2024, 2, 29, tzinfo=datetime.timezone.utc),
        datetime.timedelta(days=1),
        uuid.UUID(int=7),
        pathlib.PurePosixPath("/a/b"),
        collections.OrderedDict(a=1),
        collections.Counter("aab"),
        collections.deque([1, 2], maxlen=2),
        range(5),
        slice(1, 2),
        Colour.RED,
        1 << 200,
        float("inf"),
        3 + 4j,
        b"\x00\xff",
        bytearray(b"ab"),
        "é\udcff",
    ]

    @ray.remote
    def same(value: object) -> object:
        return value

    return all(ray.get(same.remote(v)) == v for v in values) and all(
        ray.get(ray.put(v)) == v for v in values
    )


@stranger("forum: enums compared by identity after ray.get", [True, True])
def an_enum_stays_itself() -> object:
    """A member of an Enum of the script is the same member after a round through a task."""

    @ray.remote
    def same(c: Colour) -> Colour:
        assert c in (Colour.RED, Colour.BLUE)
        return c

    back = ray.get(same.remote(Colour.RED))
    return [back == Colour.RED, back.value == "red"]


@stranger("forum: recursive structures", [True, True, 1])
def objects_that_hold_themselves() -> object:
    """A cycle stays a cycle; __slots__ survive."""
    linked = ray.get(ray.put(Linked()))
    return [linked.me is linked, linked.rest[0] is linked, ray.get(ray.put(Slotted(1))).a]


@stranger("docs: Serialization, custom serializers", ["db:1", "db:2", "TypeError"])
def custom_serialization() -> object:
    """What holds a lock is sent by __reduce__, or by a registered serializer; otherwise it is a TypeError."""

    class Other:
        def __init__(self, address: str) -> None:
            self.address = address
            self.lock = threading.Lock()

    refused = raised(lambda: ray.put(Other("x")))
    ray.util.register_serializer(Other, serializer=lambda o: o.address, deserializer=Other)
    found = [ray.get(ray.put(Connection("db:1"))).address, ray.get(ray.put(Other("db:2"))).address]
    ray.util.deregister_serializer(Other)
    return [*found, type(refused).__name__]


@stranger("docs: Serialization, troubleshooting", [False, True])
def inspect_what_does_not_pickle() -> object:
    """inspect_serializability says which part is at fault."""
    from ray.util import inspect_serializability

    lock = threading.Lock()

    def uses_it() -> object:
        return lock

    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        ok, failures = inspect_serializability(uses_it, name="uses_it")
    return [ok, any("lock" in repr(f) for f in failures)]


@stranger("docs: Anti-pattern: Closure capturing large objects", [1_000_000, 1_000_000])
def a_large_object_in_a_closure() -> object:
    """A large array that a task captures, and the same one put once and passed: both are whole."""
    big = np.ones(1_000_000)
    ref = ray.put(big)

    @ray.remote
    def captured() -> int:
        return int(big.sum())

    @ray.remote
    def passed(a: np.ndarray) -> int:
        return int(a.sum())

    return ray.get([captured.remote(), passed.remote(ref)])


@stranger("docs: Anti-pattern: Returning ray.put ObjectRefs from a task", [3, 3])
def references_as_results() -> object:
    """A task returns a reference that it put itself; another returns the value."""

    @ray.remote
    def by_ref() -> ray.ObjectRef:
        return ray.put([1, 2, 3])

    @ray.remote
    def by_value() -> list[int]:
        return [1, 2, 3]

    return [len(ray.get(ray.get(by_ref.remote()))), len(ray.get(by_value.remote()))]


@stranger("docs: Nested object references", [10, 10])
def references_within_references() -> object:
    """A list of references is put; a task reads what is in it, after the driver dropped its own."""
    inner = [ray.put(i) for i in range(5)]
    outer = ray.put(inner)
    del inner
    gc.collect()

    @ray.remote
    def total(box: list[ray.ObjectRef]) -> int:
        [held] = box
        return sum(ray.get(ray.get(held)))

    return [ray.get(total.remote([outer])), sum(ray.get(ray.get(outer)))]


@stranger(
    "StackOverflow: ray.get of something that is no reference",
    ["ValueError", "TypeError", "TypeError"],
)
def get_of_what_is_no_reference() -> object:
    """ray.get(1), ray.get of a list with a number, ray.put of a reference are errors that say so."""
    ref = ray.put(1)
    found = [
        raised(lambda: ray.get(1)),
        raised(lambda: ray.get([ref, 1])),
        raised(lambda: ray.put(ref)),
    ]  # type: ignore[call-overload]
    return [type(error).__name__ for error in found]


@stranger("docs: ObjectRef, futures", [2, [1, 2], 3])
def references_as_futures() -> object:
    """ref.future() is a concurrent future, ``await ref`` and asyncio.wrap_future work."""
    import asyncio

    @ray.remote
    def one(x: int) -> int:
        return x

    async def both() -> list[int]:
        return list(await asyncio.gather(one.remote(1), one.remote(2)))

    async def wrapped() -> int:
        return await asyncio.wrap_future(one.remote(3).future())

    return [one.remote(2).future().result(timeout=60), asyncio.run(both()), asyncio.run(wrapped())]


@stranger(
    "docs: Memory management, reference counting",
    True,
    cluster={"num_cpus": 1, "object_store_memory": 100 * 1024 * 1024},
)
def memory_is_given_back() -> object:
    """Twenty objects of 20 MB pass through a store of 100 MB when none is kept."""
    return all(
        len(ray.get(ray.put(np.zeros(20_000_000, dtype=np.uint8)))) == 20_000_000 for _ in range(20)
    )


@stranger(
    "docs: Object spilling",
    600_000_000,
    cluster={"num_cpus": 1, "object_store_memory": 100 * 1024 * 1024},
)
def more_than_the_store_holds() -> object:
    """Twelve objects of 50 MB are kept in a store of 100 MB: the rest lies on disk and can be read."""
    refs = [ray.put(np.full(50_000_000, i, dtype=np.uint8)) for i in range(12)]
    total = 0
    for i, ref in enumerate(refs):
        array = ray.get(ref)
        assert array[0] == array[-1] == i
        total += len(array)
        del array
    return total


@stranger("forum: pandas frames and the object store", [True, "ValueError"])
def a_frame_from_the_store() -> object:
    """A DataFrame comes back equal; its columns of numbers are read-only until it is copied."""
    import pandas as pd

    frame = pd.DataFrame({"a": np.arange(50_000), "b": np.arange(50_000.0)})
    got = ray.get(ray.put(frame))
    same = got.equals(frame)

    def write() -> None:
        got["a"].to_numpy(copy=False)[0] = 5

    return [same, type(raised(write)).__name__]


@stranger("forum: memoryviews and buffers", [b"abc", 5_000_000, 0])
def buffers() -> object:
    """bytes and large bytearrays come back with what was in them."""
    large = bytearray(5_000_000)
    got = ray.get(ray.put(large))
    return [ray.get(ray.put(b"abc")), len(got), sum(got)]


@stranger("docs: ray.ObjectRef, ids", [True, True, True])
def references_compare_by_id() -> object:
    """A reference that went through a task equals the first one, has its hash, its hex form."""

    @ray.remote
    def back(box: list[ray.ObjectRef]) -> list[ray.ObjectRef]:
        return box

    ref = ray.put(1)
    [again] = ray.get(back.remote([ref]))
    return [again == ref, hash(again) == hash(ref), again.hex() == ref.hex()]


@stranger("docs: Fault tolerance, objects made again", 7)
def a_lost_task_result_is_made_again() -> object:
    """A large result whose only holder, a worker, dies can be read after it."""

    @ray.remote
    def make() -> np.ndarray:
        return np.full(300_000, 7)

    @ray.remote(max_retries=0)
    def die() -> None:
        import os

        os._exit(1)

    ref = make.remote()
    ray.wait([ref], fetch_local=False)
    raised(lambda: ray.get(die.remote()))
    return int(ray.get(ref)[0])


@stranger("docs: Weak handles: does a put object live as long as its reference", [1, True])
def the_owner_of_a_put_dies() -> object:
    """What an actor put is gone with the actor: OwnerDiedError, not a hang."""

    @ray.remote
    class Holder:
        def give(self) -> list[ray.ObjectRef]:
            return [ray.put(np.ones(200_000))]

    holder = Holder.remote()
    [ref] = ray.get(holder.give.remote())
    first = int(ray.get(ref)[0])
    ray.kill(holder)

    def lost() -> object:
        try:
            ray.get(ref, timeout=30)
        except ray.exceptions.ObjectLostError as error:
            return error
        return None

    return [first, isinstance(until(lost), ray.exceptions.ObjectLostError)]


if __name__ == "__main__":
    main()
