"""Pools of actors that cannot start: the execution says so instead of waiting for ever."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import ray
from ray.exceptions import GetTimeoutError

CLUSTER = {"num_cpus": 4, "num_gpus": 1, "resources": {"room": 2}}


class Same:
    def __call__(self, batch: Any) -> Any:
        return batch


CONSUMERS: dict[str, Callable[[Any, Path], Any]] = {
    "take": lambda ds, _: ds.take(1),
    "count": lambda ds, _: ds.count(),
    "materialize": lambda ds, _: ds.materialize(),
    "batches": lambda ds, _: list(ds.iter_batches()),
    "torch": lambda ds, _: list(ds.iter_torch_batches()),
    "shuffle": lambda ds, _: ds.random_shuffle().take_all(),
    "split": lambda ds, _: list(ds.streaming_split(1)[0].iter_rows()),
    "write": lambda ds, folder: ds.write_parquet(str(folder / "out")),
    "in a task": lambda ds, _: ray.get(ray.remote(lambda d: d.take_all()).remote(ds)),
}


@pytest.fixture
def patience(rd: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Datasets made in the test wait one second for their pools."""
    context = rd.DataContext.get_current()
    monkeypatch.setattr(context, "wait_for_min_actors_s", 1)
    return context


@pytest.mark.parametrize("consumer", CONSUMERS)
@pytest.mark.contract("F10.06", "F10.27")
def test_a_pool_that_can_never_start_is_an_error(
    rd: Any, patience: Any, consumer: str, tmp_path: Path
) -> None:
    dataset = rd.range(10).map_batches(Same, concurrency=2, resources={"nowhere": 1})
    with pytest.raises(GetTimeoutError, match="actors"):
        CONSUMERS[consumer](dataset, tmp_path)


@pytest.mark.parametrize(
    ("options", "starts"),
    [
        ({"concurrency": 1, "num_gpus": 2, "batch_size": 2}, False),
        ({"concurrency": 3, "resources": {"room": 1}}, False),  # one of three has no room
        ({"concurrency": (1, 3), "resources": {"room": 1}}, True),  # only the least is waited for
        ({"concurrency": (1, 3, 3), "resources": {"room": 1}}, False),
        ({"concurrency": 2, "resources": {"room": 1}}, True),
        ({"concurrency": 2}, True),
    ],
)
@pytest.mark.contract("F10.06", "F10.27")
def test_the_initial_actors_are_waited_for(
    rd: Any, patience: Any, options: dict[str, Any], starts: bool
) -> None:
    patience.wait_for_min_actors_s = 30 if starts else 1
    dataset = rd.range(10).map_batches(Same, **options)
    if starts:
        assert dataset.count() == 10
    else:
        with pytest.raises(GetTimeoutError):
            dataset.count()
    # The pool is gone either way: another one has all the room.
    again = rd.range(10).map_batches(Same, concurrency=2, resources={"room": 1})
    again.context.wait_for_min_actors_s = 30
    assert again.count() == 10


@pytest.mark.parametrize(
    "options",
    [
        {"concurrency": (1, 8), "resources": {"room": 1}},
        {"concurrency": (1, 8), "num_gpus": 1},
        {"num_gpus": 1},  # as many actors as are of use
        {"concurrency": 4, "resources": {"room": 1}},  # two of four wait for ever
    ],
)
@pytest.mark.contract("F10.06")
def test_tasks_go_to_the_actors_that_could_start(rd: Any, options: dict[str, Any]) -> None:
    dataset = rd.range(200, override_num_blocks=50).map_batches(Same, batch_size=4, **options)
    assert sorted(row["id"] for row in dataset.take_all()) == list(range(200))


@pytest.mark.contract("F10.27")
def test_the_settings_of_the_dataset_count(rd: Any) -> None:
    assert rd.DataContext.get_current().wait_for_min_actors_s == -1  # no wait
    dataset = rd.range(10).map_batches(Same, concurrency=1, resources={"nowhere": 1})
    dataset.context.wait_for_min_actors_s = 1
    with pytest.raises(GetTimeoutError):
        dataset.take_all()


@pytest.mark.contract("F10.27")
def test_a_constructor_that_fails_is_told_as_such(rd: Any, patience: Any) -> None:
    patience.wait_for_min_actors_s = 30

    class Broken:
        def __init__(self) -> None:
            raise KeyError("asked for")

        def __call__(self, batch: Any) -> Any:
            return batch

    with pytest.raises(KeyError):
        rd.range(10).map_batches(Broken, concurrency=1).take_all()
