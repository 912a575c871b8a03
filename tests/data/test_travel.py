"""Datasets go anywhere: to tasks, actors, training workers, files; whatever they are made of."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest
import ray
from ray import cloudpickle

from tests.helpers import dataset_plans as plans

CLUSTER = {"num_cpus": 4}


@ray.remote(num_cpus=0)
def contents_in_task(dataset: Any) -> list[str]:
    return plans.contents(dataset)


@ray.remote(num_cpus=0, max_concurrency=3)
class Keeper:
    """Holds datasets that the driver may have dropped."""

    def __init__(self) -> None:
        self.kept: dict[str, Any] = {}

    def keep(self, name: str, dataset: Any) -> None:
        self.kept[name] = dataset

    def contents(self, name: str) -> list[str]:
        return plans.contents(self.kept.pop(name))


@pytest.mark.parametrize("source", plans.SOURCES)
@pytest.mark.contract("F10.15", "F10.23")
def test_datasets_of_every_source_and_operator_can_be_pickled(
    rd: Any, source: str, tmp_path: Path
) -> None:
    made = plans.SOURCES[source]
    for name, dataset in plans.plans(made, made.make(tmp_path)).items():
        for dump in (cloudpickle.dumps, pickle.dumps):
            copy = pickle.loads(dump(dataset))
            assert type(copy) is type(dataset), name
            assert repr(copy) == repr(dataset), name


@pytest.mark.parametrize("state", ["unread", "materialized"])
@pytest.mark.parametrize("source", plans.SOURCES)
@pytest.mark.contract("F10.15", "F10.23")
def test_a_dataset_of_every_source_is_read_in_a_task(
    rd: Any, source: str, state: str, tmp_path: Path
) -> None:
    dataset = plans.SOURCES[source].make(tmp_path).map_batches(plans.same)
    expected = plans.contents(dataset)
    assert len(expected) == plans.ROWS
    assert ray.get(contents_in_task.remote(plans.STATES[state](dataset))) == expected


@pytest.mark.parametrize(
    ("source", "state"),
    [
        ("parquet", "unread"),
        ("parquet", "partly read"),
        ("parquet", "materialized"),
        ("from_pandas", "unread"),
    ],
)
@pytest.mark.contract("F10.15", "F10.23")
def test_a_dataset_after_every_operator_outlives_the_one_that_made_it(
    rd: Any, source: str, state: str, tmp_path: Path
) -> None:
    made = plans.SOURCES[source]
    keeper = Keeper.remote()
    expected = {}
    for name, dataset in plans.plans(made, made.make(tmp_path)).items():
        expected[name] = plans.contents(dataset)
        ray.get(keeper.keep.remote(name, plans.STATES[state](dataset)))
        del dataset
    found = ray.get([keeper.contents.remote(name) for name in expected])
    for (name, rows), kept in zip(expected.items(), found, strict=True):
        assert kept == rows, name
    ray.kill(keeper)


@pytest.mark.contract("F10.15")
def test_what_plans_hold_of_the_user_travels_too(rd: Any, tmp_path: Path) -> None:
    base = 10  # closures, local classes and lambdas go by value

    class Add:
        def __init__(self, more: int) -> None:
            self.more = more

        def __call__(self, batch: Any) -> Any:
            return {"a": batch["a"] + base + self.more}

    dataset = (
        plans.SOURCES["parquet"]
        .make(tmp_path)
        .map_batches(Add, fn_constructor_args=(1,), concurrency=1, num_cpus=0.1)
        .filter(lambda row: row["a"] > base + 2)
        .add_column("c", lambda frame: frame["a"] * base)
    )
    found = ray.get(contents_in_task.remote(dataset))
    assert found == sorted(repr({"a": a, "c": a * 10}) for a in range(13, 19))


@pytest.mark.contract("F10.15")
def test_a_dataset_travels_inside_other_values_and_through_several_hands(
    rd: Any, tmp_path: Path
) -> None:
    @ray.remote(num_cpus=0)
    def pass_on(box: Any) -> Any:
        return {"again": [box["dataset"].limit(3)]}

    dataset = plans.SOURCES["parquet"].make(tmp_path).sort("a")
    expected = plans.contents(dataset)[:3]
    box = ray.get(pass_on.remote({"dataset": ray.put(dataset) and dataset}))
    assert plans.contents(box["again"][0]) == expected
    assert ray.get(contents_in_task.remote(ray.put(box["again"][0]))) == expected


@pytest.mark.parametrize("state", plans.STATES)
@pytest.mark.contract("F10.15", "F10.23")
def test_iterators_travel_as_datasets_do(rd: Any, state: str, tmp_path: Path) -> None:
    dataset = plans.SOURCES["parquet"].make(tmp_path).map(plans.same)
    expected = plans.contents(dataset)
    iterator = plans.STATES[state](dataset).iterator()
    assert ray.get(contents_in_task.remote(iterator)) == expected
    first, second = dataset.streaming_split(2, equal=True)
    halves = ray.get([contents_in_task.remote(first), contents_in_task.remote(second)])
    assert sorted(halves[0] + halves[1]) == expected


def first_rows(config: dict[str, Any]) -> None:
    from ray import train

    shard = train.get_dataset_shard("train")
    values = [int(v) for batch in shard.iter_batches(batch_size=2) for v in batch[config["column"]]]
    rank = train.get_context().get_world_rank()
    Path(config["notes"], str(rank)).write_text(" ".join(map(str, values)))


@pytest.mark.parametrize(
    ("source", "state"),
    [
        ("parquet", "unread"),
        ("parquet", "partly read"),
        ("parquet", "materialized"),
        ("from_items", "unread"),
        ("sql", "unread"),
        ("datasource", "read"),
    ],
)
@pytest.mark.contract("F9.18", "F10.15")
def test_trainers_take_datasets_of_every_kind(
    rd: Any, source: str, state: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ray.train import RunConfig, ScalingConfig
    from ray.train.torch import TorchTrainer

    monkeypatch.setenv("HELIOSTAT_TRAIN_VIEW", "off")
    notes, data = tmp_path / "notes", tmp_path / "data"
    notes.mkdir()
    data.mkdir()
    dataset = plans.SOURCES[source].make(data).map_batches(plans.same).random_shuffle(seed=3)
    TorchTrainer(
        first_rows,
        train_loop_config={"notes": str(notes), "column": "a"},
        scaling_config=ScalingConfig(num_workers=2, resources_per_worker={"CPU": 0.5}),
        run_config=RunConfig(name="run", storage_path=str(tmp_path)),
        datasets={"train": plans.STATES[state](dataset)},
    ).fit()
    found = [int(v) for path in notes.iterdir() for v in path.read_text().split()]
    assert sorted(found) == list(range(plans.ROWS))
