"""A pool with the interface of the standard library's, and joblib on it (contract F14.02, F14.03)."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Iterator
from multiprocessing import TimeoutError as PoolTimeout
from typing import Any

import pytest
import ray
from ray.util.multiprocessing import Pool

pytestmark = [
    pytest.mark.contract("F14.02"),
    pytest.mark.usefixtures("ray_start"),
    # The handler that the pool's threads of Ray leave behind; ours leaves none.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


@pytest.fixture
def pool() -> Iterator[Any]:
    with Pool(2) as pool:
        yield pool


def double(x: int) -> int:
    return 2 * x


def add(x: int, y: int, *, z: int = 0) -> int:
    return x + y + z


def fail(x: int) -> int:
    if x == 2:
        raise ValueError(f"not {x}")
    return x


def nap(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


def process(_: Any) -> int:
    return os.getpid()


def test_one_call(pool: Any) -> None:
    assert pool.apply(add, (1, 2), {"z": 3}) == 6
    result = pool.apply_async(add, (1,), {"y": 5})
    assert result.get(timeout=30) == 6
    assert result.ready()
    assert result.successful()
    with pytest.raises(ValueError, match="not 2"):
        pool.apply(fail, (2,))
    failed = pool.apply_async(fail, (2,))
    failed.wait(30)
    assert not failed.successful()
    slow = pool.apply_async(nap, (30,))
    with pytest.raises(PoolTimeout):
        slow.get(timeout=0.1)
    assert not slow.ready()


def test_many_calls_keep_their_order(pool: Any) -> None:
    wanted = [2 * n for n in range(20)]
    assert pool.map(double, range(20)) == wanted
    assert pool.map(double, range(20), chunksize=3) == wanted
    assert pool.map_async(double, range(20)).get(timeout=30) == wanted
    assert pool.starmap(add, [(1, 2), (3, 4)]) == [3, 7]
    assert pool.starmap_async(add, [(1, 2)]).get(timeout=30) == [3]
    assert pool.map(double, []) == []
    with pytest.raises(ValueError, match="not 2"):
        pool.map(fail, range(4))


@pytest.mark.heliostat_only("Ray hands the results of a map to its callback in another form")
def test_callbacks_get_what_comes_of_it(pool: Any) -> None:
    from tests.helpers.harness import wait_until

    came: list[Any] = []
    pool.map_async(double, [1, 2], callback=came.append).wait(30)
    pool.apply_async(fail, (2,), error_callback=came.append).wait(30)
    wait_until(lambda: len(came) == 2)
    assert [2, 4] in came
    assert any(isinstance(one, ValueError) for one in came)


@pytest.mark.heliostat_only("Ray goes on after a failed call in another way")
def test_imap_reads_no_further_than_needed(pool: Any) -> None:
    found = pool.imap(double, itertools.count())
    assert [next(found) for _ in range(10)] == [2 * n for n in range(10)]
    assert sorted(pool.imap_unordered(double, range(6), chunksize=2)) == [0, 2, 4, 6, 8, 10]
    slow = pool.imap(nap, [3.0])  # what follows may come behind it
    with pytest.raises(PoolTimeout):
        slow.next(timeout=0.1)
    failing = pool.imap(fail, [1, 2, 3])
    assert next(failing) == 1
    with pytest.raises(ValueError, match="not 2"):
        next(failing)
    assert next(failing) == 3


def test_imap_unordered_gives_the_quick_ones_first(pool: Any) -> None:
    found = pool.imap_unordered(nap, [5.0, 0.01])
    assert next(found) == 0.01


def test_processes_and_their_initializer() -> None:
    def prepare(value: str) -> None:
        os.environ["PREPARED"] = value

    def prepared(_: int) -> str:
        return os.environ["PREPARED"]

    with Pool(2, initializer=prepare, initargs=("yes",)) as pool:
        assert pool.map(prepared, range(4), chunksize=1) == ["yes"] * 4
        assert len(set(pool.map(process, range(8), chunksize=1))) == 2
    with pytest.raises(ValueError, match="not running"):
        pool.map(double, [1])
    with pytest.raises(ValueError, match=">0"):
        Pool(0)


@pytest.mark.heliostat_only("Ray finds out when its actors have died")
def test_an_initializer_is_something_to_call() -> None:
    with pytest.raises(TypeError, match="callable"):
        Pool(1, initializer=1)


def test_a_closed_pool_ends_what_it_was_given() -> None:
    pool = Pool(1)
    result = pool.map_async(double, [1, 2])
    pool.close()
    with pytest.raises(ValueError, match="not running"):
        pool.apply(double, (1,))
    pool.join()
    assert result.get() == [2, 4]
    with Pool(1) as other, pytest.raises(ValueError, match="still running"):
        other.join()


def test_a_process_is_replaced_after_so_many_chunks() -> None:
    with Pool(1, maxtasksperchild=2) as pool:
        pids = pool.map(process, range(6), chunksize=1)
        assert [pids[0], pids[2], pids[4]] == [pids[1], pids[3], pids[5]]
        assert len(set(pids)) == 3
    pool.join()
    with Pool(2) as pool:
        assert len(set(pool.map(process, range(12), chunksize=1))) == 2, "without it they stay"


@pytest.mark.heliostat_only("Ray takes any number")
def test_a_bound_of_no_chunks_is_refused() -> None:
    with pytest.raises(ValueError, match="maxtasksperchild"):
        Pool(1, maxtasksperchild=0)


def test_an_initializer_that_fails_fails_the_pool() -> None:
    def prepare() -> None:
        raise OSError("no licence")

    def run() -> None:
        with Pool(1, initializer=prepare) as pool:
            pool.map(double, [1])

    with pytest.raises(ray.exceptions.RayActorError, match="no licence"):
        run()


def test_what_cannot_be_pickled_is_refused(pool: Any) -> None:
    import threading

    lock = threading.Lock()
    with pytest.raises(TypeError, match=r"pickle|serial"):
        pool.apply(double, (lock,))
    with pytest.raises(TypeError, match=r"pickle|serial"):
        pool.apply(lambda: threading.Lock())
    assert pool.apply(double, (2,)) == 4, "the pool goes on"


def test_what_an_iterable_raises_reaches_the_caller(pool: Any) -> None:
    def items() -> Iterator[int]:
        yield 1
        raise KeyError("no more")

    with pytest.raises(KeyError, match="no more"):
        pool.map(double, items())


def test_terminate_ends_what_runs() -> None:
    pool = Pool(1)
    slow = pool.apply_async(nap, (3600.0,))
    pool.terminate()
    pool.join()
    with pytest.raises(ray.exceptions.RayActorError):
        slow.get(timeout=60)


@pytest.mark.contract("F14.03")
def test_joblib_runs_on_the_cluster() -> None:
    joblib = pytest.importorskip("joblib", reason="joblib is an optional library")
    from ray.util.joblib import register_ray

    register_ray()
    with joblib.parallel_backend("ray", n_jobs=2):
        pids = joblib.Parallel()(joblib.delayed(process)(n) for n in range(8))
        squares = joblib.Parallel()(joblib.delayed(pow)(n, 2) for n in range(8))
    assert squares == [n * n for n in range(8)]
    assert os.getpid() not in pids
    assert ray.is_initialized()
