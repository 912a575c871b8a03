"""Streams: how far a generator runs ahead, and what its end says."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import ray
from ray.util.state import get_task, list_objects

from tests.helpers.harness import IS_HELIOSTAT, wait_until

pytestmark = pytest.mark.usefixtures("ray_start")


@ray.remote
class Tally:
    def __init__(self) -> None:
        self.n = 0

    def up(self) -> int:
        self.n += 1
        return self.n

    def get(self) -> int:
        return self.n


@pytest.mark.contract("F1.17", "F1.09")
def test_a_generator_runs_ahead_as_far_as_it_may() -> None:
    tally = Tally.remote()

    @ray.remote(_generator_backpressure_num_objects=2)
    def count() -> Any:
        for i in range(6):
            ray.get(tally.up.remote())
            yield i

    stream = count.remote()
    wait_until(lambda: ray.get(tally.get.remote()) >= 2)
    # Two are unread, and the third is made at most.
    assert ray.get(tally.get.remote()) <= 3
    first = ray.get(next(stream))
    assert ray.get(tally.get.remote()) <= 4
    assert [first, *(ray.get(ref) for ref in stream)] == list(range(6))


@pytest.mark.contract("F1.17")
@pytest.mark.parametrize("options", [{"_generator_backpressure_num_objects": 0}])
def test_no_room_at_all_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="_generator_backpressure_num_objects"):
        ray.remote(**options)(lambda: None)


@pytest.mark.contract("F1.08")
def test_a_generator_may_have_more_than_is_asked_for() -> None:
    @ray.remote(num_returns=2)
    def many() -> Any:
        yield from range(5)

    @ray.remote(num_returns=3)
    def few() -> Any:
        yield from range(2)

    assert ray.get(many.remote()) == [0, 1]
    with pytest.raises(ValueError, match="num_returns"):
        ray.get(few.remote())


@pytest.mark.contract("F1.08", "F1.09")
def test_values_before_an_error_are_there() -> None:
    @ray.remote
    def breaks() -> Any:
        yield 1
        yield b"x" * 200_000
        raise KeyError("third")

    first, second, third, fourth = breaks.options(num_returns=4).remote()
    assert ray.get(first) == 1
    assert len(ray.get(second)) == 200_000
    for ref in (third, fourth):
        with pytest.raises(KeyError, match="third"):
            ray.get(ref)
    with pytest.warns(DeprecationWarning, match="dynamic"):
        dynamic = breaks.options(num_returns="dynamic").remote()
    first, second, third = ray.get(dynamic)
    assert ray.get(first) == 1
    with pytest.raises(KeyError, match="third"):
        ray.get(third)


@pytest.mark.contract("F1.08", "F1.11")
def test_values_before_an_error_that_is_retried_are_made_again() -> None:
    tally = Tally.remote()

    @ray.remote(num_returns=2, max_retries=1, retry_exceptions=True)
    def second_time() -> Any:
        attempt = ray.get(tally.up.remote())
        yield b"x" * 200_000
        if attempt == 1:
            raise KeyError("first time")
        yield attempt

    large, attempt = second_time.remote()
    assert ray.get(attempt) == 2
    assert len(ray.get(large)) == 200_000


@pytest.mark.contract("F1.09", "F1.10", "F1.11")
@pytest.mark.parametrize("how", ["error", "crash"])
def test_a_stream_that_is_run_again_repeats_no_item(how: str) -> None:
    tally = Tally.remote()

    @ray.remote(max_retries=1, retry_exceptions=True)
    def second_time() -> Any:
        attempt = ray.get(tally.up.remote())
        yield 1
        yield 2
        if attempt == 1 and how == "crash":
            os._exit(1)
        if attempt == 1:
            raise KeyError("first time")
        yield 3

    assert [ray.get(ref) for ref in second_time.remote()] == [1, 2, 3]
    assert ray.get(tally.get.remote()) == 2


@pytest.mark.contract("F1.12", "F1.09")
def test_the_worker_of_a_stream_ends_after_max_calls() -> None:
    @ray.remote(max_calls=1)
    def pids() -> Any:
        yield os.getpid()
        yield os.getpid()

    found = [[ray.get(ref) for ref in pids.remote()] for _ in range(3)]
    assert all(first == second for first, second in found)
    assert len({first for first, _ in found}) == 3


@pytest.mark.contract("F1.17")
def test_several_items_of_one_yield() -> None:
    @ray.remote(_num_objects_per_yield=2)
    def pairs() -> Any:
        yield 1, 2
        yield [3, 4]
        yield (5,)

    stream = pairs.remote()
    assert [ray.get(next(stream)) for _ in range(4)] == [1, 2, 3, 4]
    with pytest.raises(ValueError, match="_num_objects_per_yield=2"):
        ray.get(next(stream))
    with pytest.raises(ValueError, match=r"not to\s+`\.options|cannot be overridden"):
        pairs.options(_num_objects_per_yield=3)
    with pytest.raises(ValueError, match="positive"):
        ray.remote(_num_objects_per_yield=0)(lambda: None)


@pytest.mark.contract("F1.09")
def test_completed_is_ready_at_the_end() -> None:
    @ray.remote
    def count(fails: bool) -> Any:
        yield 1
        if fails:
            raise KeyError("at the end")

    stream = count.remote(False)
    assert [ray.get(ref) for ref in stream] == [1]
    assert ray.get(stream.completed(), timeout=20) is None
    assert stream.is_finished()
    failing = count.remote(True)
    refs = list(failing)
    with pytest.raises(KeyError):
        ray.get(refs[-1])
    ready, _ = ray.wait([failing.completed()], timeout=20)
    assert ready
    if IS_HELIOSTAT:  # Ray gives None
        with pytest.raises(KeyError):
            ray.get(ready)


@pytest.mark.contract("F1.09")
def test_a_generator_that_nobody_keeps_runs_to_its_end() -> None:
    """It was called for what it does."""
    tally = Tally.remote()

    @ray.remote
    def work() -> Any:
        for i in range(3):
            ray.get(tally.up.remote())
            yield bytes(200_000) + bytes([i])

    work.remote()
    wait_until(lambda: ray.get(tally.get.remote()) == 3)


@pytest.mark.contract("F1.09")
@pytest.mark.heliostat_only("Ray lets a generator run on whose reader has left it")
def test_a_generator_whose_reader_leaves_it_is_cancelled() -> None:
    tally = Tally.remote()

    @ray.remote
    def endless() -> Any:
        while True:
            yield ray.get(tally.up.remote())

    stream = endless.remote()
    ray.get(next(stream))
    del stream

    def stands_still() -> bool:
        before = ray.get(tally.get.remote())
        time.sleep(0.3)
        return bool(ray.get(tally.get.remote()) == before)

    wait_until(stands_still)


@pytest.mark.contract("F1.09", "F1.16")
@pytest.mark.heliostat_only("Ray lets a generator run on whose reader has left it")
def test_a_generator_that_waits_for_its_reader_is_cancelled_beside_news() -> None:
    """Its worker is asked for its rows so often that no wait there ever lasts."""

    @ray.remote(_generator_backpressure_num_objects=1)
    def waits_for_its_reader() -> Any:
        yield 1
        yield 2

    stream = waits_for_its_reader.remote()
    task = stream.task_id().hex()
    assert ray.get(next(stream)) == 1
    del stream

    def state_after_questions() -> str | None:
        list_objects(limit=1000)
        found = get_task(task)
        return found.state if found else None

    wait_until(lambda: state_after_questions() not in ("RUNNING", None))


@pytest.mark.contract("F1.09", "F1.11")
@pytest.mark.parametrize("read_first", [False, True])
def test_calls_of_a_generator_whose_reader_leaves_it_go_on(
    tmp_path: Path, read_first: bool
) -> None:
    @ray.remote
    def part(folder: str) -> int:
        while not Path(folder, "go").exists():
            time.sleep(0.01)
        return 7

    @ray.remote(_generator_backpressure_num_objects=1)
    def items(folder: str) -> Any:
        made = part.remote(folder)
        yield [made]
        yield [made]

    stream = items.remote(str(tmp_path))
    first = next(stream)
    box = ray.get(first) if read_first else None
    del stream
    Path(tmp_path, "go").touch()
    box = box or ray.get(first, timeout=60)
    assert ray.get(box, timeout=60) == [7]


@pytest.mark.contract("F1.09", "F1.08", "F2.15")
@pytest.mark.parametrize("maker", ["task", "actor", "threads", "async"])
def test_a_generator_with_one_return_gives_its_first_value(maker: str) -> None:
    def items() -> Any:
        yield np.full(300_000, 7)
        raise ValueError("later")

    def none() -> Any:
        return
        yield

    def fails() -> Any:
        raise ValueError("at once")
        yield

    def returned() -> Any:
        return (i for i in range(4, 9))

    def iterator() -> Any:
        return iter([7, 8])

    functions = [items, none, fails, returned, iterator]
    if maker == "task":
        made = [ray.remote(f).options(num_returns=1).remote() for f in functions]
    else:

        class Maker:
            def call(self, place: int) -> Any:
                return functions[place]()

        class Async:
            async def call(self, place: int) -> Any:
                return functions[place]()

        cls: Any = ray.remote(Async if maker == "async" else Maker)
        actor = cls.options(max_concurrency=2 if maker == "threads" else 1).remote()
        made = [actor.call.remote(place) for place in range(len(functions))]
    first, nothing, error, of_returned, whole = made
    assert int(ray.get(first, timeout=30)[0]) == 7
    with pytest.raises(ValueError, match=r"returned 0 objects, but num_returns=1"):
        ray.get(nothing, timeout=30)
    with pytest.raises(ValueError, match="at once"):
        ray.get(error, timeout=30)
    assert ray.get(of_returned, timeout=30) == 4
    assert list(ray.get(whole, timeout=30)) == [7, 8], "an iterator that can be pickled is a value"
