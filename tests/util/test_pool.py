"""``multiprocessing.Pool`` and joblib on actors."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator
from typing import Any

import pytest
from harness import wait_until
from ray.util.multiprocessing import Pool

pytestmark = pytest.mark.usefixtures("ray_start")


def double(x: int) -> int:
    return 2 * x


def plus(x: int, y: int) -> int:
    return x + y


def fail_at_two(x: int) -> int:
    if x == 2:
        raise ValueError("two is bad")
    return x


@pytest.fixture
def pool(ray_start: Any) -> Iterator[Pool]:
    with Pool(processes=2) as pool:
        yield pool


@pytest.mark.contract("F14.02")
def test_single_calls(pool: Pool) -> None:
    assert pool.apply(double, (4,)) == 8
    assert pool.apply(plus, (1,), {"y": 2}) == 3
    result = pool.apply_async(double, (5,))
    assert result.get(timeout=30) == 10
    assert result.ready()
    assert result.successful()


@pytest.mark.contract("F14.02")
def test_maps(pool: Pool) -> None:
    assert pool.map(double, range(5)) == [0, 2, 4, 6, 8]
    assert pool.map(double, range(5), chunksize=2) == [0, 2, 4, 6, 8]
    assert pool.map(double, []) == []
    assert pool.starmap(plus, [(1, 2), (3, 4)]) == [3, 7]
    assert pool.map_async(double, [1, 2]).get(timeout=30) == [2, 4]
    assert pool.starmap_async(plus, [(1, 1)]).get(timeout=30) == [2]


@pytest.mark.contract("F14.02")
def test_results_as_they_come(pool: Pool) -> None:
    assert list(pool.imap(double, range(5), chunksize=2)) == [0, 2, 4, 6, 8]
    assert sorted(pool.imap_unordered(double, range(5))) == [0, 2, 4, 6, 8]
    results = pool.imap(double, [1])
    assert results.next(timeout=30) == 2
    with pytest.raises(StopIteration):
        results.next()


@pytest.mark.contract("F14.02")
def test_an_error_is_that_of_its_call(pool: Pool) -> None:
    with pytest.raises(ValueError, match="two is bad"):
        pool.map(fail_at_two, range(4))
    results = pool.imap(fail_at_two, range(1, 4))
    assert next(results) == 1
    with pytest.raises(ValueError, match="two is bad"):
        next(results)
    assert next(results) == 3
    failed = pool.apply_async(fail_at_two, (2,))
    failed.wait(30)
    assert not failed.successful()


@pytest.mark.contract("F14.02")
def test_callbacks(pool: Pool) -> None:
    good: list[Any] = []
    bad: list[BaseException] = []
    pool.apply_async(double, (4,), callback=good.append)
    pool.apply_async(fail_at_two, (2,), callback=good.append, error_callback=bad.append)
    wait_until(lambda: good and bad, within=30)
    assert good == [8]
    assert isinstance(bad[0], ValueError)


@pytest.mark.contract("F14.02")
def test_timeouts_are_those_of_the_standard_library(pool: Pool) -> None:
    waiting = pool.apply_async(_block, ())
    with pytest.raises(multiprocessing.TimeoutError):
        waiting.get(timeout=0.1)
    with pytest.raises(ValueError, match="not ready"):
        waiting.successful()


def _block() -> None:
    import threading

    threading.Event().wait(30)


@pytest.mark.contract("F14.02")
def test_initializer_and_end() -> None:
    pool = Pool(2, initializer=_set, initargs=("OF_THE_POOL", "yes"))
    assert pool.map(os.getenv, ["OF_THE_POOL"] * 4) == ["yes"] * 4
    with pytest.raises(ValueError, match="still running"):
        pool.join()
    pool.close()
    with pytest.raises(ValueError, match="not running"):
        pool.map(double, [1])
    pool.join()


@pytest.mark.contract("F14.02")
@pytest.mark.parametrize("processes", [0, -1])
def test_a_pool_has_processes(processes: int) -> None:
    with pytest.raises(ValueError, match="rocesses"):
        Pool(processes=processes)


@pytest.mark.contract("F14.03")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_joblib_runs_on_the_cluster() -> None:
    joblib = pytest.importorskip("joblib", reason="joblib is an extra")
    from ray.util.joblib import register_ray

    register_ray()
    with joblib.parallel_backend("ray", n_jobs=2):
        pids = joblib.Parallel()(joblib.delayed(_pid)(i) for i in range(6))
    assert [i for i, _ in pids] == list(range(6))
    assert os.getpid() not in {pid for _, pid in pids}


def _set(name: str, value: str) -> None:
    os.environ[name] = value


def _pid(i: int) -> tuple[int, int]:
    return i, os.getpid()
