"""One dataset for several consumers."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable
from typing import Any

import pytest
import ray

CLUSTER = {"num_cpus": 4}


def consume(iterators: list[Any], epochs: int = 1, batch_size: int = 3) -> list[list[list[int]]]:
    """The ids that each consumer sees in each epoch, in threads."""
    seen: list[list[list[int]]] = [[] for _ in iterators]
    errors: list[BaseException] = []

    def run(number: int) -> None:
        try:
            for _ in range(epochs):
                batches = iterators[number].iter_batches(batch_size=batch_size)
                seen[number].append([int(i) for b in batches for i in b["id"]])
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(len(iterators))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return seen


@pytest.mark.contract("F10.15")
@pytest.mark.parametrize("blocks", [1, 20])
def test_consumers_share_the_rows(rd: Any, blocks: int) -> None:
    iterators = rd.range(83, override_num_blocks=blocks).streaming_split(3)
    for epoch in zip(*consume(iterators, epochs=2), strict=True):
        assert sorted(i for part in epoch for i in part) == list(range(83))


@pytest.mark.contract("F10.15")
@pytest.mark.parametrize("blocks", [1, 16])
def test_equal_shares_drop_what_is_left_over(rd: Any, blocks: int) -> None:
    iterators = rd.range(83, override_num_blocks=blocks).streaming_split(3, equal=True)
    for epoch in zip(*consume(iterators, epochs=2), strict=True):
        assert [len(part) for part in epoch] == [27, 27, 27]
        assert len({i for part in epoch for i in part}) == 81


@pytest.mark.contract("F10.15")
def test_equal_shares_of_uneven_blocks(rd: Any) -> None:
    kept = rd.range(100, override_num_blocks=10).filter(
        lambda row: row["id"] % 10 <= row["id"] // 10
    )
    parts = [epochs[0] for epochs in consume(kept.streaming_split(2, equal=True))]
    assert [len(part) for part in parts] == [27, 27]
    assert len(set(parts[0]) | set(parts[1])) == 54


@pytest.mark.contract("F10.15")
def test_consumers_in_other_processes(rd: Any) -> None:
    @ray.remote(num_cpus=0)
    def read(iterator: Any) -> list[int]:
        return [int(i) for _ in range(2) for b in iterator.iter_batches() for i in b["id"]]

    iterators = rd.range(50).map(lambda row: {"id": row["id"] + 100}).streaming_split(2)
    assert pickle.loads(ray.cloudpickle.dumps(iterators[0])) is not None
    parts = ray.get([read.remote(iterator) for iterator in iterators])
    assert sorted(i for part in parts for i in part) == sorted([*range(100, 150)] * 2)


@pytest.mark.contract("F10.15")
def test_a_slow_consumer_and_one_that_leaves_early(rd: Any) -> None:
    first, second = rd.range(40, override_num_blocks=20).streaming_split(2, equal=True)
    seen: dict[str, Any] = {"first": [], "second": []}

    def leaves() -> None:
        for _ in first.iter_batches(batch_size=2):
            break
        seen["first"] = [int(i) for b in first.iter_batches(batch_size=2) for i in b["id"]]

    def stays() -> None:
        for _ in range(2):
            seen["second"] = [int(i) for b in second.iter_batches(batch_size=2) for i in b["id"]]

    threads = [threading.Thread(target=f) for f in (leaves, stays)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen["first"]) == len(seen["second"]) == 20
    assert set(seen["first"]) | set(seen["second"]) == set(range(40))


@pytest.mark.contract("F10.15")
@pytest.mark.heliostat_only("Ray's fast consumers may wait for a slow one")
@pytest.mark.parametrize("equal", [True, False])
def test_a_slow_consumer_gets_its_share_and_holds_nobody_up(rd: Any, equal: bool) -> None:
    iterators = rd.range(400, override_num_blocks=40).streaming_split(4, equal=equal)
    seen: list[list[int]] = [[] for _ in iterators]
    at_work = threading.Semaphore(0)

    def read(number: int) -> None:
        for batch in iterators[number].iter_batches(batch_size=5, prefetch_batches=0):
            seen[number] += [int(i) for i in batch["id"]]
            if (
                number == 0 and len(seen[0]) == 5
            ):  # the slow one: the others end before its second batch
                for _ in range(3):
                    assert at_work.acquire(timeout=100)
        at_work.release()

    threads = [threading.Thread(target=read, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [len(part) for part in seen] == [100] * 4
    assert sorted(i for part in seen for i in part) == list(range(400))


@pytest.mark.contract("F10.15")
def test_an_error_reaches_every_consumer(rd: Any) -> None:
    def fail(batch: Any) -> Any:
        raise RuntimeError("in the pipeline")

    iterators = rd.range(10).map_batches(fail).streaming_split(2)
    for iterator in iterators:
        assert iterator is not None
    with pytest.raises(Exception, match="in the pipeline"):
        consume(iterators)


@pytest.mark.contract("F10.15")
@pytest.mark.heliostat_only("Ray checks them only when the consumers begin")
def test_wrong_arguments(rd: Any) -> None:
    for call in (
        lambda: rd.range(3).streaming_split(0),
        lambda: rd.range(3).streaming_split(2, locality_hints=["a"]),
    ):
        with pytest.raises(ValueError, match="split"):
            call()


@pytest.mark.contract("F10.15")
def test_about_a_split(rd: Any) -> None:
    (iterator,) = rd.range(10).streaming_split(1)
    assert iterator.schema().names == ["id"]
    assert len(list(iterator.iter_rows())) == 10
    assert "ReadRange" in iterator.stats()


# --- the split, which is pure -----------------------------------------------------------------------


def deal(n: int, equal: bool, rows: list[int], homes: Any = None, nodes: Any = None) -> list[int]:
    from heliostat.data.plan.operators import Bundle
    from heliostat.data.split.row_split import RowSplit

    split = RowSplit(n, equal, homes)
    for i, count in enumerate(rows):
        split.add(Bundle(None, count, count * 8, node=nodes[i] if nodes else ""))
    split.end()
    return [sum(b.rows for b in hand) for hand in split.hands]


@pytest.mark.contract("F10.15")
@pytest.mark.heliostat_only("looks at the split itself")
@pytest.mark.parametrize(
    ("n", "rows"),
    [(2, [10]), (2, [1] * 7), (3, [100, 1, 1]), (3, [1, 1, 100]), (4, [5, 0, 3, 9, 2]), (2, [])],
)
def test_hands_are_level(n: int, rows: list[int]) -> None:
    assert deal(n, True, rows) == [sum(rows) // n] * n
    assert sum(deal(n, False, rows)) == sum(rows)


@pytest.mark.contract("F10.15")
@pytest.mark.heliostat_only("looks at the split itself")
def test_blocks_go_to_the_hand_on_their_node() -> None:
    nodes = ["a", "b"] * 10
    from heliostat.data.plan.operators import Bundle
    from heliostat.data.split.row_split import RowSplit

    split = RowSplit(2, False, ["a", "b"])
    for node in nodes:
        split.add(Bundle(None, 5, 40, node=node))
    assert {b.node for b in split.hands[0]} == {"a"}
    assert {b.node for b in split.hands[1]} == {"b"}


Split = Callable[[Any], list[Any]]


@pytest.mark.contract("F10.16")
def test_splits_that_are_materialized(rd: Any) -> None:
    dataset = rd.range(10)

    def counts(parts: Any) -> list[int]:
        found = sorted(row["id"] for part in parts for row in part.take_all())
        assert len(found) == len(set(found))
        return [part.count() for part in parts]

    assert counts(dataset.split(3)) == [4, 3, 3]
    assert counts(dataset.split(3, equal=True)) == [3, 3, 3]
    assert counts(dataset.split_at_indices([2, 3])) == [2, 1, 7]
    assert counts(dataset.split_proportionately([0.2, 0.5])) == [2, 5, 3]
    assert counts(dataset.train_test_split(0.3)) == [7, 3]
    assert counts(dataset.train_test_split(4, shuffle=True, seed=1)) == [6, 4]
    for wrong in (0.0, 1.5, 11):
        with pytest.raises(ValueError, match="test_size"):
            dataset.train_test_split(wrong)


@pytest.mark.contract("F10.16")
def test_a_stratified_split(rd: Any) -> None:
    dataset = rd.from_items([{"k": "a" if i < 30 else "b", "i": i} for i in range(40)])
    train, test = dataset.train_test_split(0.2, stratify="k")
    assert (train.count(), test.count()) == (32, 8)
    assert sorted(row["k"] for row in test.take_all()) == ["a"] * 6 + ["b"] * 2
