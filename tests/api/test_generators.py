"""Streams: how far a generator runs ahead, and what its end says."""

from __future__ import annotations

from typing import Any

import pytest
import ray
from harness import IS_HELIOSTAT, wait_until

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
