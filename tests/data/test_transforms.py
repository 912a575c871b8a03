"""Rows, batches and columns."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import ray

CLUSTER = {"num_cpus": 4}


def ids(dataset: Any) -> list[int]:
    return sorted(row["id"] for row in dataset.take_all())


@pytest.mark.contract("F10.06")
def test_rows(rd: Any) -> None:
    dataset = rd.range(10)
    assert ids(dataset.map(lambda row: {"id": row["id"] * 2})) == list(range(0, 20, 2))
    assert ids(dataset.flat_map(lambda row: [row, row])) == sorted([*range(10), *range(10)])
    assert ids(dataset.filter(lambda row: row["id"] % 2 == 0)) == [0, 2, 4, 6, 8]


@pytest.mark.contract("F10.06")
def test_arguments_of_functions_and_classes(rd: Any) -> None:
    class Add:
        def __init__(self, base: int, *, more: int) -> None:
            self.base = base + more

        def __call__(self, row: dict[str, Any], step: int) -> dict[str, Any]:
            return {"id": row["id"] + self.base + step}

    made = rd.range(4).map(
        Add,
        fn_args=(1,),
        fn_constructor_args=(10,),
        fn_constructor_kwargs={"more": 100},
        compute=rd.ActorPoolStrategy(size=1),
    )
    assert ids(made) == [111, 112, 113, 114]
    added = rd.range(2).map(
        lambda row, a, b: {"id": row["id"] + a + b}, fn_args=(1,), fn_kwargs={"b": 5}
    )
    assert ids(added) == [6, 7]


@pytest.mark.contract("F10.06")
def test_async_functions(rd: Any) -> None:
    class Twice:
        async def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
            import asyncio

            await asyncio.sleep(0)
            return {"id": batch["id"] * 2}

    made = rd.range(10, override_num_blocks=2).map_batches(
        Twice, compute=rd.ActorPoolStrategy(size=1)
    )
    assert ids(made) == list(range(0, 20, 2))


@pytest.mark.contract("F10.06", "F10.07")
def test_a_class_is_made_once_an_actor(rd: Any) -> None:
    class Where:
        def __init__(self) -> None:
            self.made = os.urandom(8).hex()

        def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
            return {"id": batch["id"], "by": [f"{os.getpid()}-{self.made}"] * len(batch["id"])}

    pool = rd.ActorPoolStrategy(size=2)
    dataset = rd.range(40, override_num_blocks=8).map_batches(Where, compute=pool)
    makers = {row["by"] for row in dataset.take_all()}
    assert len(makers) == len({m.split("-")[0] for m in makers}) <= 2


@pytest.mark.contract("F10.07")
@pytest.mark.parametrize("batch_format", ["numpy", "pandas", "pyarrow", "default", None])
def test_formats_of_batches(rd: Any, batch_format: str | None) -> None:
    expected = {"pandas": "DataFrame", "pyarrow": "Table", None: "Table"}.get(batch_format, "dict")

    def check(batch: Any) -> Any:
        assert type(batch).__name__ == expected, type(batch)
        return batch

    assert ids(rd.range(5).map_batches(check, batch_format=batch_format)) == list(range(5))


@pytest.mark.contract("F10.07")
def test_sizes_of_batches(rd: Any) -> None:
    def sizes(size: int | None) -> list[int]:
        made = rd.range(10, override_num_blocks=1).map_batches(
            lambda b: {"n": [len(b["id"])]}, batch_size=size
        )
        return sorted(row["n"] for row in made.take_all())

    assert sizes(None) == [10]
    assert sizes(4) == [2, 4, 4]
    assert sizes(100) == [10]


@pytest.mark.contract("F10.07")
def test_small_blocks_are_joined_for_a_batch(rd: Any) -> None:
    dataset = rd.from_items(list(range(12)), override_num_blocks=12)
    made = dataset.map_batches(lambda b: {"n": [len(b["item"])]}, batch_size=6)
    assert [row["n"] for row in made.take_all()] == [6, 6]


@pytest.mark.contract("F10.07")
def test_a_function_may_yield_several_batches(rd: Any) -> None:
    def halves(batch: dict[str, Any]) -> Iterator[dict[str, Any]]:
        yield {"id": batch["id"][::2]}
        yield {"id": batch["id"][1::2]}

    assert ids(rd.range(9).map_batches(halves)) == list(range(9))


@pytest.mark.contract("F10.07")
@pytest.mark.parametrize(
    "result",
    [1, {"x": 1}, {"x": np.zeros(3), "y": np.zeros(4)}, None],
    ids=["number", "scalar column", "uneven columns", "nothing"],
)
def test_what_is_no_batch_is_refused(rd: Any, result: Any) -> None:
    with pytest.raises(ValueError, match=r"(?s)."):
        rd.range(4).map_batches(lambda batch: result).materialize()


@pytest.mark.contract("F10.07")
def test_wrong_arguments(rd: Any) -> None:
    dataset = rd.range(4)
    with pytest.raises(ValueError, match="batch_size"):
        dataset.map_batches(lambda b: b, num_gpus=1)
    with pytest.raises(ValueError, match="zz"):
        dataset.map_batches(lambda b: b, batch_format="zz")
    with pytest.raises(ValueError, match="Exactly one"):
        dataset.filter()


@pytest.mark.contract("F10.07")
def test_an_error_of_the_function_reaches_the_caller(rd: Any) -> None:
    def fail(batch: Any) -> Any:
        raise KeyError("the-missing-thing")

    with pytest.raises(ray.exceptions.RayTaskError) as caught:
        rd.range(4).map_batches(fail).materialize()
    assert isinstance(caught.value, ray.exceptions.UserCodeException)
    assert "the-missing-thing" in str(caught.value)
    assert "in fail" in str(caught.value)


@pytest.mark.contract("F10.07")
@pytest.mark.heliostat_only("Ray's exception is not of the user's class")
def test_an_error_is_of_its_own_class_too(rd: Any) -> None:
    class Bad:
        def __init__(self) -> None:
            raise FileNotFoundError("weights.pt")

        def __call__(self, batch: Any) -> Any:
            return batch

    with pytest.raises(ZeroDivisionError, match="division"):
        rd.range(4).map(lambda row: {"id": row["id"] // 0}).take_all()
    with pytest.raises(FileNotFoundError, match=r"weights\.pt"):
        rd.range(4).map_batches(Bad, compute=rd.ActorPoolStrategy(size=1)).take_all()


@pytest.mark.contract("F10.27")
def test_some_blocks_may_fail(rd: Any) -> None:
    def fail_on_3(row: dict[str, Any]) -> dict[str, Any]:
        if row["id"] == 3:
            raise ValueError("three")
        return row

    dataset = rd.range(6, override_num_blocks=6).map(fail_on_3)
    dataset.context.max_errored_blocks = 1
    assert ids(dataset) == [0, 1, 2, 4, 5]
    dataset.context.max_errored_blocks = 0
    with pytest.raises(ray.exceptions.RayTaskError):
        dataset.take_all()


@pytest.mark.contract("F10.08")
def test_columns(rd: Any) -> None:
    dataset = rd.range(3).map_batches(lambda b: {"id": b["id"], "x": b["id"] * 2})
    assert dataset.drop_columns(["x"]).columns() == ["id"]
    assert dataset.select_columns(["x"]).take(1) == [{"x": 0}]
    assert dataset.rename_columns({"x": "y"}).columns() == ["id", "y"]
    assert dataset.rename_columns(["p", "q"]).columns() == ["p", "q"]
    assert dataset.limit(2).count() == 2
    with pytest.raises((KeyError, ray.exceptions.RayTaskError), match="zz"):
        dataset.drop_columns(["zz"]).materialize()
    with pytest.raises((KeyError, ray.exceptions.RayTaskError), match="zz"):
        dataset.rename_columns({"zz": "y"}).materialize()
    few = dataset.select_columns(["x"], concurrency=1, num_cpus=0.5)
    assert few.drop_columns([], memory=1).rename_columns({"x": "y"}, num_cpus=1).count() == 3


@pytest.mark.contract("F10.08", "F10.09")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_new_columns(rd: Any) -> None:
    from ray.data.expressions import col, lit

    dataset = rd.range(3)
    assert [r["y"] for r in dataset.add_column("y", lambda df: df["id"] + 1).take_all()] == [
        1,
        2,
        3,
    ]
    made = dataset.with_column("y", (col("id") + 1) * lit(2))
    assert [row["y"] for row in made.take_all()] == [2, 4, 6]


@pytest.mark.contract("F10.08")
def test_samples(rd: Any) -> None:
    dataset = rd.range(1000)
    once, again = (ids(dataset.random_sample(0.3, seed=5)) for _ in range(2))
    assert once == again
    assert 200 < len(once) < 400
    with pytest.raises(ValueError, match="between 0 and 1"):
        dataset.random_sample(1.5)


@pytest.mark.contract("F10.20")
def test_filters_that_keep_nothing_leave_the_columns(rd: Any) -> None:
    none = rd.range(10).filter(lambda row: False)
    assert none.count() == 0
    assert none.schema().names == ["id"]
    assert none.map_batches(lambda b: {"x": b["id"]}).take_all() == []


@pytest.mark.contract("F10.07")
def test_tensors_and_objects_from_functions(rd: Any) -> None:
    torch = pytest.importorskip("torch")

    def make(batch: dict[str, Any]) -> dict[str, Any]:
        n = len(batch["id"])
        return {
            "t": torch.ones(n, 2),
            "d": np.array(["2020-01-01"] * n, dtype="datetime64[D]"),
            "o": [{"k": int(i)} for i in batch["id"]],
        }

    batch = rd.range(3).map_batches(make).take_batch()
    assert batch["t"].dtype == np.float32
    assert batch["t"].shape == (3, 2)
    assert batch["d"].dtype.kind == "M"
    assert [o["k"] for o in batch["o"]] == [0, 1, 2]


@pytest.mark.contract("F10.14")
def test_blocks_of_different_columns(rd: Any) -> None:
    both = rd.from_items([{"a": 1}]).union(rd.from_items([{"b": "x"}]))
    assert sorted(both.schema().names) == ["a", "b"]
    batch = both.take_batch(batch_format="pandas")
    assert len(batch) == 2
    assert batch["a"].isna().sum() == batch["b"].isna().sum() == 1
