"""`ray.util.iter` and `ray.util.actor_group`: deprecated, and there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest
import ray
from ray.util.actor_group import ActorGroup
from ray.util.iter import (
    LocalIterator,
    ParallelIteratorWorker,
    from_actors,
    from_items,
    from_iterators,
    from_range,
)

pytestmark = [
    pytest.mark.contract("F2.30"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


# Workers do not import this module: what goes there is a lambda, or is made by a function.
def even() -> Callable[[Iterable[int]], Iterator[int]]:
    return lambda items: (item for item in items if item % 2 == 0)


def squares() -> Callable[[], Iterator[int]]:
    return lambda: (i * i for i in range(4))


# Items in the order in which they come.
ORDERED: dict[str, tuple[Callable[[], Any], list[Any]]] = {
    "items": (lambda: from_items([1, 2, 3, 4], num_shards=3).gather_sync(), [1, 2, 3, 4]),
    "range": (lambda: from_range(10, 3).gather_sync(), [0, 3, 6, 1, 4, 7, 2, 5, 8, 9]),
    "function": (
        lambda: from_iterators([range(3), squares()]).gather_sync(),
        [0, 0, 1, 1, 2, 4, 9],
    ),
    "nothing": (lambda: from_items([], num_shards=2).gather_sync(), []),
    "chain": (
        lambda: (
            from_range(6, 2)
            .for_each(lambda x: x * 2)
            .filter(lambda x: x > 2)
            .batch(2)
            .gather_sync()
        ),
        [[4], [6, 8], [10]],
    ),
    "flatten": (lambda: from_range(6, 2).batch(2).flatten().gather_sync(), [0, 3, 1, 4, 2, 5]),
    "combine": (
        lambda: from_range(4, 2).combine(lambda x: [x, x]).gather_sync(),
        [0, 2, 0, 2, 1, 3, 1, 3],
    ),
    "rounds": (lambda: from_range(5, 2).batch_across_shards(), [[0, 2], [1, 3], [4]]),
    "transform": (lambda: from_range(8, 2).transform(even()).gather_sync(), [0, 4, 2, 6]),
    "selected": (lambda: from_range(6, 3).select_shards([0, 2]).gather_sync(), [0, 4, 1, 5]),
    "shuffled": (
        lambda: from_range(6, 1).local_shuffle(3, seed=1).gather_sync(),
        [0, 3, 1, 4, 2, 5],
    ),
    "local": (
        lambda: from_range(7, 2).gather_sync().for_each(str).batch(3),
        [["0", "3", "1"], ["4", "2", "5"], ["6"]],
    ),
    "in turn": (
        lambda: (
            from_range(3, 1)
            .gather_sync()
            .union(from_items([7, 8, 9], 1).gather_sync(), deterministic=True)
        ),
        [0, 7, 1, 8, 2, 9],
    ),
    "weights": (
        lambda: (
            from_range(4, 1)
            .gather_sync()
            .union(from_items([7, 8, 9], 1).gather_sync(), round_robin_weights=[2, 1])
        ),
        [0, 1, 7, 2, 3, 8, 9],
    ),
}

# Items that come in any order.
UNORDERED: dict[str, tuple[Callable[[], Any], list[Any]]] = {
    "async": (lambda: from_range(10, 3).gather_async(), list(range(10))),
    "batches": (
        lambda: from_range(300, 3).gather_async(batch_ms=5, num_async=2),
        list(range(300)),
    ),
    "repartition": (lambda: from_range(8, 2).repartition(3).gather_sync(), list(range(8))),
    "repartition in batches": (
        lambda: from_range(8, 2).repartition(3, batch_ms=5).gather_async(),
        list(range(8)),
    ),
    "union": (
        lambda: from_range(4, 2).union(from_items([10, 11], 1)).gather_sync(),
        [0, 1, 2, 3, 10, 11],
    ),
    "tasks of actors": (
        lambda: from_range(8, 2).for_each(lambda x: x + 1, 3, {"num_cpus": 0.1}).gather_sync(),
        list(range(1, 9)),
    ),
    "tasks of the driver": (
        lambda: from_range(8, 2).gather_sync().for_each(lambda x: x + 1, max_concurrency=0),
        list(range(1, 9)),
    ),
    "as they come": (
        lambda: from_range(3, 1).gather_async().union(from_items([7, 8, 9], 1).gather_async()),
        [0, 1, 2, 7, 8, 9],
    ),
    "what is ready": (
        lambda: (
            from_range(4, 1)
            .gather_sync()
            .union(from_items([7, 8], 1).gather_sync(), round_robin_weights=[1, "*"])
        ),
        [0, 1, 2, 3, 7, 8],
    ),
}


@pytest.mark.parametrize("name", ORDERED)
def test_items_in_order(ray_start: Any, name: str) -> None:
    make, expected = ORDERED[name]
    assert list(make()) == expected


@pytest.mark.parametrize("name", UNORDERED)
def test_items_in_any_order(ray_start: Any, name: str) -> None:
    make, expected = UNORDERED[name]
    assert sorted(make()) == expected


def test_shards_are_read_in_tasks(ray_start: Any) -> None:
    parallel = from_range(6, 2).for_each(lambda x: x + 1)
    assert parallel.num_shards() == 2

    @ray.remote(num_cpus=0)
    def read(items: LocalIterator[int]) -> list[int]:
        return list(items)

    assert ray.get([read.remote(shard) for shard in parallel.shards()]) == [[1, 2, 3], [4, 5, 6]]
    assert ray.get(read.remote(parallel.gather_sync())) == [1, 4, 2, 5, 3, 6]


def test_repartition_deals_out_in_turn(ray_start: Any) -> None:
    parallel = from_range(8, 2).repartition(3)
    assert [sorted(shard) for shard in parallel.shards()] == [[0, 3, 4, 7], [1, 5], [2, 6]]


def test_some_of_endless_items(ray_start: Any, capsys: pytest.CaptureFixture[str]) -> None:
    endless = from_items([1, 2], 2, repeat=True)
    assert endless.take(5) == [1, 2, 1, 2, 1]
    endless.gather_sync().show(2)
    assert capsys.readouterr().out == "1\n2\n"


def test_copies_wait_for_each_other(ray_start: Any) -> None:
    one, two = from_range(4, 1).gather_sync().duplicate(2)
    assert (next(one), next(two)) == (0, 0)
    assert list(one.union(two, deterministic=True)) == [1, 1, 2, 2, 3, 3]


def test_items_with_their_actors(ray_start: Any) -> None:
    pairs = list(from_range(4, 2).gather_async().zip_with_source_actor())
    assert sorted(item for _, item in pairs) == [0, 1, 2, 3]
    assert len({actor for actor, _ in pairs}) == 2


def test_notes_are_shared(ray_start: Any) -> None:
    def count(item: int) -> int:
        notes = LocalIterator.get_metrics()
        notes.counters["items"] += item
        with notes.timers["time"]:
            return notes.counters["items"]

    items = from_range(4, 1).gather_sync().for_each(count).filter(bool)
    assert list(items) == [1, 3, 6]
    notes = items.shared_metrics.get()
    saved = notes.save()
    assert saved["counters"] == {"items": 6}
    assert notes.timers["time"].count == 4
    notes.restore({**saved, "counters": {"items": 1}})
    assert notes.counters == {"items": 1}


@pytest.mark.heliostat_only("Ray's fails at the end of the items")
def test_a_hook_before_each_item(ray_start: Any) -> None:
    class Hook:
        called = 0

        def _on_fetch_start(self) -> None:
            Hook.called += 1

        def __call__(self, item: int) -> int:
            return item

    assert list(from_range(3, 1).gather_sync().for_each(Hook())) == [0, 1, 2]
    assert Hook.called == 4


def test_actors_of_ones_own(ray_start: Any) -> None:
    @ray.remote(num_cpus=0)
    class Worker(ParallelIteratorWorker):  # type: ignore[misc]
        def __init__(self, number: int) -> None:
            super().__init__(range(number), False)

    assert list(from_actors([Worker.remote(3), Worker.remote(1)]).gather_sync()) == [0, 0, 1, 2]


def test_names(ray_start: Any) -> None:
    parallel = from_range(4, 2)
    assert repr(parallel.for_each(str)) == "ParallelIterator[from_range[4, shards=2].for_each()]"
    assert repr(parallel.gather_sync().batch(2)) == (
        "LocalIterator[ParallelIterator[from_range[4, shards=2]].gather_sync().batch(2)]"
    )
    assert repr(from_items([1], 1, repeat=True)) == (
        "ParallelIterator[from_items[int, 1, shards=1, repeat=True]]"
    )


WRONG: list[tuple[Callable[[], Any], type[Exception]]] = [
    (lambda: iter(from_range(2)), TypeError),
    (lambda: from_range(2).gather_async(num_async=0), ValueError),
    (lambda: from_range(2).gather_async(batch_ms=-1), ValueError),
    (lambda: from_range(4, 2).get_shard(5), ValueError),
    (lambda: from_range(4).union(3), TypeError),
    (lambda: from_range(4).union(from_range(2)).select_shards([0]), ValueError),
    (lambda: from_range(4).select_shards([]), ValueError),
    (lambda: from_range(4).gather_sync().union(3), ValueError),
    (lambda: from_range(4).gather_sync().duplicate(1), ValueError),
    (lambda: LocalIterator.get_metrics(), ValueError),
    (lambda: from_range(2, 1).for_each(lambda x: 1 // 0).take(1), ZeroDivisionError),
    (lambda: from_iterators([lambda: iter(())], repeat=False).for_each(str, -1), AssertionError),
    (lambda: from_range(2, 1).gather_sync().zip_with_source_actor().take(1), ValueError),
]


@pytest.mark.parametrize("index", range(len(WRONG)))
def test_what_cannot_be(ray_start: Any, index: int) -> None:
    call, error = WRONG[index]
    LocalIterator.thread_local.metrics = None
    with pytest.raises(error):
        call()


def counter() -> type:
    class Counter:
        def __init__(self, start: int, step: int = 1) -> None:
            self.value, self.step = start, step

        def add(self, times: int) -> int:
            self.value += self.step * times
            return self.value

        def get_actor_metadata(self) -> int:
            return self.value

    return Counter


def test_a_group_of_actors(ray_start: Any) -> None:
    group = ActorGroup(
        counter(), num_actors=2, num_cpus_per_actor=0, init_args=(1,), init_kwargs={"step": 5}
    )
    assert ray.get(group.add.remote(2)) == [11, 11]
    assert ray.get(group[1].actor.add.remote(1)) == 16
    assert group.actor_metadata == [1, 1]
    group.add_actors(1)
    assert ray.get(group.add.remote(0)) == [11, 16, 1]
    group.remove_actors([0])
    assert ray.get(group.add.remote(0)) == [16, 1]
    with pytest.raises(TypeError, match=r"group\.add\.remote|object\.add\.remote"):
        group.add(1)
    with pytest.raises(RuntimeError, match="already been started"):
        group.start()
    actor = group[0].actor
    group.shutdown()
    assert len(group) == 0
    with pytest.raises(ray.exceptions.RayActorError):
        ray.get(actor.add.remote(1))
    with pytest.raises(RuntimeError, match="start it again"):
        group.add.remote(1)
    group.start()
    assert ray.get(group.add.remote(0)) == [1, 1]
    group.shutdown(patience_s=0)


@pytest.mark.parametrize("options", [{"num_actors": 0}, {"num_cpus_per_actor": -1}])
def test_a_group_that_cannot_be(ray_start: Any, options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="must"):
        ActorGroup(counter(), init_args=(1,), **options)
