"""Datasets on their way to the workers: any object with the methods of a dataset will do."""

from __future__ import annotations

from typing import Any

import pytest
from ray import train
from ray.train import DataConfig, WorkerGroupError

pytestmark = pytest.mark.usefixtures("quiet")


class Rows:
    """A dataset as the trainer sees it."""

    def __init__(self, rows: list[int]) -> None:
        self.rows = rows
        self.hints: list[str] | None = None

    def streaming_split(self, n: int, *, equal: bool, locality_hints: Any) -> list[list[int]]:
        assert equal
        assert len(locality_hints) == n
        return [self.rows[i::n] for i in range(n)]

    def iterator(self) -> list[int]:
        return self.rows


def shards() -> dict[str, Any]:
    """What each rank has got, told by rank 0."""
    found = {name: train.get_dataset_shard(name) for name in ("train", "eval")}
    rank = train.get_context().get_world_rank()
    train.report({f"rank{rank}": {k: list(v) for k, v in found.items()}})
    return found


@pytest.mark.contract("F9.18")
def test_no_dataset(fit: Any) -> None:
    def loop() -> Any:
        return train.get_dataset_shard("train")

    assert fit(loop, 2).return_value is None


@pytest.mark.contract("F9.07", "F9.18")
@pytest.mark.parametrize(
    ("split", "evaluated"), [("all", [7]), (["train"], [7, 8]), (["train", "eval"], [7])]
)
def test_which_datasets_are_split(fit: Any, split: Any, evaluated: list[int]) -> None:
    result = fit(
        shards,
        2,
        trainer={
            # A function makes its dataset when the group is there.
            "datasets": {"train": Rows([1, 2, 3, 4]), "eval": lambda: Rows([7, 8])},
            "dataset_config": DataConfig(datasets_to_split=split),
        },
    )
    assert result.return_value == {"train": [1, 3], "eval": evaluated}


@pytest.mark.contract("F9.07")
def test_a_split_of_ones_own(fit: Any) -> None:
    class Mine(DataConfig):
        def configure(self, datasets: Any, world_size: int, *args: Any, **more: Any) -> Any:
            return [{"train": [rank], "eval": sorted(datasets)} for rank in range(world_size)]

    trainer = {"datasets": {"a": Rows([])}, "dataset_config": Mine()}
    assert fit(shards, 2, trainer=trainer).return_value == {"train": [0], "eval": ["a"]}


@pytest.mark.contract("F9.18")
@pytest.mark.heliostat_only("the texts")
def test_datasets_that_are_not_there(fit: Any) -> None:
    with pytest.raises(WorkerGroupError, match=r"no dataset 'eval'; the trainer has \['train'\]"):
        fit(shards, 1, trainer={"datasets": {"train": Rows([1])}})
