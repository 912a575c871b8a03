"""Objects: put, get, wait, zero-copy reads, serialization, and refs as futures."""

from __future__ import annotations

import asyncio
import concurrent.futures
import gc
import pickle
import threading
import time
from collections import namedtuple
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import ray
from ray.exceptions import GetTimeoutError

from tests.helpers.harness import wait_until
from tests.helpers.samples import Adder

pytestmark = pytest.mark.usefixtures("ray_start")

Point = namedtuple("Point", "x y")


@dataclass(frozen=True)
class Record:
    name: str
    values: tuple[int, ...]


@ray.remote
def echo(value: Any) -> Any:
    return value


@ray.remote
def after(seconds: float, value: Any) -> Any:
    time.sleep(seconds)
    return value


VALUES = [
    None,
    True,
    0,
    -(2**200),
    1.5,
    float("inf"),
    "text \u2600",
    b"",
    b"bytes",
    bytearray(b"mutable"),
    (),
    (1, (2, [3, {4: {5}}])),
    {"nested": {"k": [1, 2]}},
    frozenset({1, 2}),
    slice(1, 2, 3),
    range(5),
    2 + 3j,
    Ellipsis,
    int,
    len,
]


@pytest.mark.contract("F3.07", "F3.11")
@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_round_trip_of_plain_values(value: Any) -> None:
    assert ray.get(ray.put(value)) == value
    back = ray.get(echo.remote(value))
    assert back == value
    # Ray turns a bytearray into bytes on the way.
    assert type(back) is type(value) or isinstance(value, bytearray)


@pytest.mark.contract("F3.11")
def test_round_trip_of_classes_of_the_test_itself() -> None:
    """They are pickled by value or by name; either way the driver gets its own type back."""

    class Local:
        def __init__(self, x: int) -> None:
            self.x = x

    back = ray.get(echo.remote(Local(3)))
    assert type(back) is Local
    assert back.x == 3
    assert ray.get(echo.remote(Adder(2))).add(1) == 3
    point, record = Point(1, [2]), Record("r", (1, 2))
    assert ray.get(ray.put(point)) == point
    assert ray.get(ray.put(record)) == record
    assert ray.get(echo.remote(lambda x: x + 1))(1) == 2


@pytest.mark.contract("F3.07")
def test_put_copies() -> None:
    value = [1]
    ref = ray.put(value)
    value.append(2)
    assert ray.get(ref) == [1]
    ray.get(ref).append(3)
    assert ray.get(ref) == [1]


@pytest.mark.contract("F3.07")
def test_put_of_a_ref_is_refused_but_a_list_of_refs_is_a_value() -> None:
    ref = ray.put(1)
    with pytest.raises(TypeError, match="list"):
        ray.put(ref)
    inner = ray.get(ray.put([ref]))[0]
    assert inner == ref
    assert ray.get(inner) == 1


@pytest.mark.contract("F3.07", "F3.11")
def test_what_cannot_be_pickled_is_named() -> None:
    class Holder:
        def __init__(self) -> None:
            self.the_lock = threading.Lock()

    with pytest.raises(TypeError, match="lock"):
        ray.put(Holder())
    with pytest.raises(TypeError, match="lock"):
        echo.remote(threading.Lock())
    lock = threading.Lock()

    @ray.remote
    def uses_lock() -> bool:
        return lock.locked()

    with pytest.raises(TypeError, match="lock"):
        uses_lock.remote()


@pytest.mark.contract("F3.11")
def test_a_return_value_that_cannot_be_pickled_is_an_error_of_the_task() -> None:
    @ray.remote
    def bad() -> Any:
        return threading.Lock()

    with pytest.raises(TypeError, match="lock"):
        ray.get(bad.remote())


@pytest.mark.contract("F3.11", "F14.04")
def test_inspect_serializability_finds_the_culprit(capsys: pytest.CaptureFixture[str]) -> None:
    lock = threading.Lock()

    def uses_lock() -> bool:
        return lock.locked()

    ok, failures = ray.util.inspect_serializability(uses_lock, name="probe")
    assert not ok
    assert any("lock" in str(failure) for failure in failures)
    assert "lock" in capsys.readouterr().out
    assert ray.util.inspect_serializability(3)[0]


@pytest.mark.contract("F3.12")
def test_registered_serializers() -> None:
    class Handle:
        def __init__(self, x: int) -> None:
            self.x = x
            self.lock = threading.Lock()

    with pytest.raises(TypeError):
        ray.put(Handle(1))
    ray.util.register_serializer(Handle, serializer=lambda h: h.x, deserializer=Handle)
    assert ray.get(ray.put(Handle(4))).x == 4

    @ray.remote
    def read(handle: Any) -> int:
        return int(handle.x)

    assert ray.get(read.remote(Handle(5))) == 5
    ray.util.deregister_serializer(Handle)
    with pytest.raises(TypeError):
        ray.put(Handle(1))


@pytest.mark.contract("F3.12")
def test_reduce_is_honoured() -> None:
    class Odd:
        def __init__(self, x: int) -> None:
            self.x = x

        def __reduce__(self) -> Any:
            return str, (f"odd {self.x}",)

    assert ray.get(ray.put(Odd(3))) == "odd 3"


@pytest.mark.contract("F3.01")
def test_get_of_a_list_keeps_order_and_repeats() -> None:
    refs = [ray.put(i) for i in range(5)]
    assert ray.get(refs + refs[:1]) == [0, 1, 2, 3, 4, 0]
    assert ray.get([]) == []
    assert ray.get(refs[2]) == ray.get(refs[2]) == 2


@pytest.mark.contract("F3.01")
@pytest.mark.parametrize("wrong", [(), {}, 3, "ref", None], ids=repr)
def test_get_wants_a_ref_or_a_list(wrong: Any) -> None:
    with pytest.raises(ValueError):
        ray.get(wrong)


@pytest.mark.contract("F3.01")
def test_get_of_a_tuple_or_of_a_list_with_other_things() -> None:
    ref = ray.put(1)
    with pytest.raises(ValueError):
        ray.get((ref,))
    with pytest.raises((TypeError, ValueError)):
        ray.get([ref, 3])


@pytest.mark.contract("F3.01")
def test_get_timeouts() -> None:
    ref = after.remote(0.7, "late")
    with pytest.raises(GetTimeoutError):
        ray.get(ref, timeout=0)
    with pytest.raises(TimeoutError):
        ray.get([ray.put(1), ref], timeout=0.05)
    assert ray.get(ref, timeout=20) == "late"
    assert ray.get(ref, timeout=0) == "late"


@pytest.mark.contract("F3.01")
def test_the_first_error_is_raised_without_waiting_for_the_rest() -> None:
    @ray.remote
    def fail() -> None:
        raise KeyError("now")

    slow = after.remote(3600, 1)
    with pytest.raises(KeyError):
        ray.get([slow, fail.remote()])
    ray.cancel(slow, force=True)


@pytest.mark.contract("F3.01", "F1.09")
def test_get_hands_a_generator_back() -> None:
    @ray.remote
    def items() -> Any:
        yield 1

    stream = items.remote()
    assert ray.get(stream) is stream
    assert ray.get(next(stream)) == 1


@pytest.mark.contract("F3.07")
def test_an_owner_cannot_be_chosen() -> None:
    with pytest.raises(ValueError, match="_owner"):
        ray.put(1, _owner=3)


@pytest.mark.contract("F3.08")
def test_wait_returns_ready_and_rest_in_input_order() -> None:
    slow = after.remote(3, "slow")
    quick = [after.remote(0, i) for i in range(3)]
    ready, rest = ray.wait([slow, *quick], num_returns=3, timeout=20)
    assert ready == quick
    assert rest == [slow]
    ray.cancel(slow, force=True)


@pytest.mark.contract("F3.08")
def test_wait_returns_at_most_num_returns() -> None:
    refs = [ray.put(i) for i in range(4)]
    ready, rest = ray.wait(refs, num_returns=2)
    assert (len(ready), len(rest)) == (2, 2)
    assert [ref for ref in refs if ref in ready] == ready, "the order of the input"
    assert [ref for ref in refs if ref not in ready] == rest
    assert ray.wait(refs, num_returns=4) == (refs, [])


@pytest.mark.contract("F3.08")
def test_wait_with_timeouts() -> None:
    ref = after.remote(0.5, 1)
    assert ray.wait([ref], timeout=0) == ([], [ref])
    assert ray.wait([ref], timeout=20) == ([ref], [])
    assert ray.wait([]) == ([], [])


@pytest.mark.contract("F3.08")
@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda r: ((r[0],), {}), TypeError),
        (lambda r: (([r[0], r[0]],), {}), ValueError),
        (lambda r: ((r,), {"num_returns": 0}), ValueError),
        (lambda r: ((r,), {"num_returns": -1}), ValueError),
        (lambda r: ((r,), {"num_returns": 3}), ValueError),
        (lambda r: ((r,), {"timeout": -1}), ValueError),
        (lambda r: (([1, 2],), {}), TypeError),
    ],
    ids=["single", "twice", "zero", "negative", "too-many", "negative-timeout", "no-refs"],
)
def test_wait_refuses(make: Any, error: type[Exception]) -> None:
    args, kwargs = make([ray.put(0), ray.put(1)])
    with pytest.raises(error):
        ray.wait(*args, **kwargs)


@pytest.mark.contract("F3.08")
def test_a_failed_task_counts_as_ready() -> None:
    @ray.remote
    def fail() -> None:
        raise KeyError

    ref = fail.remote()
    assert ray.wait([ref], timeout=20) == ([ref], [])


@pytest.mark.contract("F3.08", "F1.09")
def test_wait_takes_generators() -> None:
    @ray.remote
    def two() -> Any:
        yield 1
        yield 2

    stream = two.remote()
    ready, rest = ray.wait([stream], timeout=20)
    assert (ready, rest) == ([stream], [])
    assert ray.get(next(stream)) == 1


@pytest.mark.contract("F0.14", "F2.05", "F3.02")
def test_refs_have_ids_and_a_repr() -> None:
    ref = echo.remote(1)
    assert repr(ref) == str(ref) == f"ObjectRef({ref.hex()})"
    assert len(ref.hex()) == 56
    assert len(ref.binary()) == 28
    assert len(ref.task_id().hex()) == 48
    assert ref.job_id().hex() == ray.get_runtime_context().get_job_id()
    assert ref == ray.ObjectRef(ref.binary())
    assert hash(ref) == hash(ray.ObjectRef(ref.binary()))
    assert ref != echo.remote(1)
    assert ray.ObjectID is ray.ObjectRef


@pytest.mark.contract("F3.02")
def test_a_ref_is_a_concurrent_future() -> None:
    future = after.remote(0.05, 7).future()
    assert isinstance(future, concurrent.futures.Future)
    assert future.result(timeout=20) == 7

    @ray.remote
    def fail() -> None:
        raise KeyError("in future")

    with pytest.raises(KeyError):
        fail.remote().future().result(timeout=20)


@pytest.mark.contract("F3.02")
def test_a_ref_can_be_awaited() -> None:
    async def main() -> Any:
        first = await after.remote(0.02, 1)
        rest = await asyncio.gather(after.remote(0.02, 2), after.remote(0, 3))
        done, pending = await asyncio.wait([asyncio.ensure_future(_await(echo.remote(4)))])
        return first, rest, [t.result() for t in done], pending

    assert asyncio.run(main()) == (1, [2, 3], [4], set())


async def _await(ref: Any) -> Any:
    return await ref


@pytest.mark.contract("F3.02")
def test_awaiting_a_failed_task_raises_its_error() -> None:
    @ray.remote
    def fail() -> None:
        raise KeyError("awaited")

    async def main() -> None:
        await fail.remote()

    with pytest.raises(KeyError):
        asyncio.run(main())


@pytest.mark.contract("F3.10", "F3.04")
def test_arrays_are_read_without_a_copy() -> None:
    source = np.arange(1_000_000, dtype=np.float64)
    ref = ray.put(source)
    first, second = ray.get(ref), ray.get(ref)
    assert np.array_equal(first, source)
    assert not first.flags.writeable
    assert not first.flags.owndata
    address = first.__array_interface__["data"][0]
    assert second.__array_interface__["data"][0] == address
    with pytest.raises(ValueError):
        first[0] = 1.0


@pytest.mark.contract("F3.10", "F3.15")
def test_array_arguments_are_read_only_views_in_the_worker() -> None:
    @ray.remote
    def look(a: np.ndarray) -> tuple[bool, float]:
        return bool(a.flags.writeable), float(a.sum())

    data = np.ones(500_000)
    assert ray.get(look.remote(ray.put(data))) == (False, 500_000.0)
    assert ray.get(look.remote(data))[1] == 500_000.0


@pytest.mark.contract("F3.10")
def test_a_view_outlives_its_ref() -> None:
    """SHM-1: the bytes stay as long as anything points at them."""
    view = ray.get(ray.put(np.full(400_000, 7.0)))[10:-10]
    gc.collect()
    for _ in range(5):
        ray.put(np.zeros(400_000))
    assert (view == 7.0).all()


@pytest.mark.contract("F3.10", "F3.11")
@pytest.mark.parametrize(
    "array",
    [
        np.zeros((0, 3)),
        np.array(5),
        np.arange(24).reshape(2, 3, 4),
        np.asfortranarray(np.arange(200_000.0).reshape(400, 500)),
        np.arange(300_000)[::3],
        np.array(["a", "bcd"]),
        np.array([{"k": 1}, None], dtype=object),
        np.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f8")]),
        np.array([True, False]),
        np.arange(10, dtype=">i4"),
        np.array(["2020-01-01"], dtype="datetime64[D]"),
    ],
    ids=lambda a: f"{a.dtype}-{a.shape}",
)
def test_every_kind_of_array(array: np.ndarray) -> None:
    for back in (ray.get(ray.put(array)), ray.get(echo.remote(array))):
        assert back.dtype == array.dtype
        assert back.shape == array.shape
        assert np.array_equal(back, array)


@pytest.mark.contract("F3.10", "F3.11")
def test_many_buffers_in_one_value() -> None:
    value = {i: np.full(20_000, i) for i in range(20)} | {"raw": b"y" * 300_000}
    back = ray.get(echo.remote(value))
    assert back["raw"] == value["raw"]
    assert all((back[i] == i).all() and back[i].size == 20_000 for i in range(20))


@pytest.mark.contract("F3.03")
@pytest.mark.parametrize("size", [0, 1, 99_000, 102_400, 102_401, 200_000, 20_000_000])
def test_sizes_around_the_inline_limit(size: int) -> None:
    data = bytes(size)
    assert ray.get(ray.put(data)) == data
    assert ray.get(echo.remote(data)) == data


@pytest.mark.contract("F3.03", "F3.09")
def test_large_results_survive_the_worker_that_made_them() -> None:
    @ray.remote(max_calls=1)
    def make() -> np.ndarray:
        return np.arange(300_000)

    refs = [make.remote() for _ in range(3)]
    ray.wait(refs, num_returns=3, timeout=30)
    for ref in refs:
        assert ray.get(ref)[-1] == 299_999


@pytest.mark.contract("F3.16")
def test_refs_can_be_pickled_out_of_band() -> None:
    from ray import cloudpickle

    ref = ray.put({"k": 1})
    again = pickle.loads(cloudpickle.dumps(ref))
    assert again == ref
    assert ray.get(again) == {"k": 1}


@dataclass
class Box:
    ref: Any


class Carries(Exception):
    def __init__(self, ref: Any) -> None:
        super().__init__(ref)
        self.ref = ref


@pytest.mark.contract("F3.09", "F3.03")
def test_refs_travel_in_whatever_holds_them() -> None:
    ref = ray.put(5)

    @ray.remote
    def raises() -> None:
        raise Carries(ray.put(np.full(200_000, 3)))

    @ray.remote
    def down(n: int) -> Any:
        return down.remote(n - 1) if n else 7

    assert ray.get(ray.get(ray.put(Box(ref))).ref) == 5
    assert ref in ray.get(ray.put(frozenset([ref])))
    assert ray.get(next(iter(ray.get(ray.put({ref: 1}))))) == 5
    with pytest.raises(Carries) as caught:
        ray.get(raises.remote())
    gc.collect()
    assert ray.get(caught.value.ref)[0] == 3, "what a task has put lives on in its exception"
    value: Any = down.remote(3)
    while isinstance(value, ray.ObjectRef):
        value = ray.get(value)
    assert value == 7


@pytest.mark.contract("F3.02")
def test_futures_of_refs_work_with_the_standard_library() -> None:
    @ray.remote
    def fail() -> None:
        raise KeyError("of the task")

    async def main() -> list[Any]:
        late = after.remote(30, 0)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(_await(late), 0.1)
        ray.cancel(late, force=True)
        wrapped = asyncio.wrap_future(echo.remote(4).future())
        return await asyncio.gather(fail.remote(), wrapped, return_exceptions=True)

    failed, value = asyncio.run(main())
    assert isinstance(failed, KeyError)
    assert value == 4
    futures = [echo.remote(i).future() for i in range(5)]
    done = concurrent.futures.as_completed(futures, timeout=30)
    assert sorted(future.result() for future in done) == list(range(5))
    with pytest.raises(KeyError):
        fail.remote().future().result(30)


@pytest.mark.contract("F3.02", "F3.09")
def test_refs_as_keys_and_in_sets() -> None:
    a, b = ray.put(1), ray.put(2)
    table = {a: "a", b: "b"}
    assert table[ray.get(ray.put([a]))[0]] == "a"
    assert len({a, b, a}) == 2


@pytest.mark.contract("F3.01", "F3.02")
def test_get_from_many_threads() -> None:
    refs = [after.remote(0.01, i) for i in range(8)]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert list(pool.map(ray.get, refs)) == list(range(8))
        assert sum(ray.get(list(pool.map(echo.remote, range(100))))) == 4950


@pytest.mark.contract("F3.01", "F5.09")
def test_a_thread_in_get_does_not_stop_the_others() -> None:
    slow = after.remote(0.5, 1)
    thread = threading.Thread(target=ray.get, args=(slow,))
    thread.start()
    assert ray.get(echo.remote(2)) == 2
    thread.join(20)
    assert not thread.is_alive()


@pytest.mark.contract("F2.28")
def test_as_completed_and_map_unordered() -> None:
    refs = [after.remote(0.01 * i, i) for i in range(4)]
    assert sorted(ray.util.as_completed(refs)) == [0, 1, 2, 3]
    assert sorted(ray.util.map_unordered(echo, range(6), backpressure_size=2)) == list(range(6))


@pytest.mark.contract("F3.06", "F3.04")
def test_more_objects_than_the_store_holds(ray_fresh: Any) -> None:
    """What does not fit goes to disk and comes back unharmed."""
    ray_fresh(num_cpus=1, object_store_memory=80 * 1024 * 1024)
    refs = [ray.put(np.full(2_500_000, i, dtype=np.float64)) for i in range(8)]
    for i, ref in enumerate(refs):
        value = ray.get(ref)
        assert value[0] == value[-1] == i
        del value
    refs.clear()
    wait_until(lambda: ray.get(ray.put(b"alive")) == b"alive")


ALIGNED: dict[str, Any] = {
    "small": lambda: np.arange(10.0),
    "one byte": lambda: np.zeros(1, np.uint8),
    "large": lambda: np.zeros(100_000),
    "several": lambda: (
        np.zeros(3, np.uint8),
        np.arange(33.0),
        np.zeros(200_001, np.uint8),
        np.ones(5),
    ),
    "nested": lambda: {
        "a": [np.zeros(777, np.uint8), {"b": np.ones((9, 9))}],
        "c": np.ones(7, ">f4"),
    },
    "nested large": lambda: [np.zeros(77_777, np.uint8), {"b": np.ones(99_999)}],
    "in an object": lambda: SimpleNamespace(x=np.ones(5), y=[np.zeros(3, np.int8)]),
    "with a reference": lambda: [ray.put(1), np.ones(5)],
}


def arrays_of(value: Any) -> list[Any]:
    if isinstance(value, np.ndarray):
        return [value]
    if isinstance(value, SimpleNamespace):
        value = vars(value)
    if not isinstance(value, dict | list | tuple):
        return []
    parts = value.values() if isinstance(value, dict) else value
    return [array for part in parts for array in arrays_of(part)]


def offsets(*values: Any, **named: Any) -> set[int]:
    return {array.ctypes.data % 64 for array in arrays_of([*values, *named.values()])}


@pytest.mark.contract("F3.04")
@pytest.mark.parametrize("kind", ALIGNED)
def test_arrays_begin_at_a_cache_line(ray_start: Any, kind: str) -> None:
    value = ALIGNED[kind]()
    see = ray.remote(lambda *values, **named: offsets(*values, **named))
    back = ray.remote(lambda value: value)
    assert offsets(ray.get(ray.put(value))) == {0}
    assert offsets(ray.get(back.remote(value))) == {0}
    assert ray.get(see.remote(value)) == {0}
    assert ray.get(see.remote("x", b"yz", value, named=value)) == {0}
    assert ray.get(see.remote(ray.put(value))) == {0}
