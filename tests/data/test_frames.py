"""DataFrames made of blocks: the types of their columns."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
import ray

LARGE = (1 << 53) + 1  # the first integer that no float is equal to


def types(frame: pd.DataFrame) -> dict[str, str]:
    return {str(name): str(kind) for name, kind in frame.dtypes.items()}


@pytest.fixture
def frame() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "whole": pd.array([1, None, LARGE], dtype="Int64"),
            "number": [1.0, None, 3.0],
            "text": ["a", None, "c"],
            "kind": pd.Categorical(["x", "y", "x"]),
            "day": pd.to_datetime(["2020-01-01"] * 3),
            "list": [[1], [2, 3], [4]],
        }
    )


@pytest.mark.contract("F10.07")
def test_a_batch_keeps_integers_beside_missing_values(rd: Any) -> None:
    table = pa.table({"n": [1, None, LARGE], "s": ["a", "b", None]})

    def double(batch: pd.DataFrame) -> pd.DataFrame:
        assert types(batch) == {"n": "int64[pyarrow]", "s": "string[pyarrow]"}
        return batch.assign(twice=batch["n"] * 2, is_missing=batch["s"].isna())

    made = rd.from_arrow(table).map_batches(double, batch_format="pandas")
    assert made.take_all() == [
        {"n": 1, "s": "a", "twice": 2, "is_missing": False},
        {"n": None, "s": "b", "twice": None, "is_missing": False},
        {"n": LARGE, "s": None, "twice": 2 * LARGE, "is_missing": True},
    ]


@pytest.mark.contract("F10.02", "F10.19", "F10.21")
def test_every_way_to_a_frame_gives_the_same_types(rd: Any) -> None:
    dataset = rd.range(3, override_num_blocks=1)
    ways = [
        dataset.to_pandas(),
        dataset.take_batch(batch_format="pandas"),
        next(iter(dataset.iter_batches(batch_format="pandas"))),
        ray.get(dataset.to_pandas_refs())[0],
        rd.range(3).map_batches(lambda f: f, batch_format="pandas").to_pandas(),
    ]
    assert [types(way) for way in ways] == [{"id": "int64[pyarrow]"}] * len(ways)
    assert types(rd.range_tensor(3).to_pandas()) == {"data": "object"}


@pytest.mark.contract("F10.02", "F10.21")
def test_columns_of_a_frame_stay_what_they_were(rd: Any, frame: pd.DataFrame) -> None:
    dataset = rd.from_pandas(frame)
    for same in (dataset, dataset.repartition(1), dataset.union(rd.from_pandas(frame[:0]))):
        pd.testing.assert_frame_equal(same.to_pandas(), frame)
    pd.testing.assert_frame_equal(dataset.limit(2).to_pandas(), frame[:2])
    some = dataset.select_columns(["whole", "kind"]).to_pandas()
    pd.testing.assert_frame_equal(some, frame[["whole", "kind"]])


@pytest.mark.contract("F10.02", "F10.07")
def test_columns_that_a_function_made_have_arrow_types(rd: Any, frame: pd.DataFrame) -> None:
    made = rd.from_pandas(frame).map_batches(lambda f: f.copy(), batch_format="pandas").to_pandas()
    assert types(made) | {"text": types(made)["text"].removeprefix("large_")} == {
        "whole": "int64[pyarrow]",
        "number": "double[pyarrow]",
        "text": "string[pyarrow]",
        "kind": "category",
        "day": "timestamp[us][pyarrow]",
        "list": "list<item: int64>[pyarrow]",
    }
    assert made["whole"].tolist() == [1, pd.NA, LARGE]


@pytest.mark.contract("F10.07", "F10.27")
def test_numpys_types_on_request(rd: Any) -> None:
    context = rd.DataContext.get_current()
    context.enable_arrow_backed_pandas_conversion = False
    try:
        dataset = rd.from_items([{"n": 1}, {"n": None}], override_num_blocks=1)
        seen = dataset.map_batches(lambda f: {"kind": [str(f["n"].dtype)]}, batch_format="pandas")
        assert seen.take_all() == [{"kind": "float64"}]
        assert types(dataset.to_pandas()) == {"n": "float64"}
        (shard,) = dataset.streaming_split(1)
        seen_elsewhere = ray.remote(
            lambda it: [types(f) for f in it.iter_batches(batch_format="pandas")]
        )
        assert ray.get(seen_elsewhere.remote(shard)) == [{"n": "float64"}]
    finally:
        context.enable_arrow_backed_pandas_conversion = True


@pytest.mark.contract("F10.07")
@pytest.mark.heliostat_only("Ray shows pandas' own NotImplementedError")
def test_an_operator_that_arrow_lacks_is_explained(rd: Any) -> None:
    made = rd.range(3).map_batches(lambda f: {"odd": f["id"] % 2}, batch_format="pandas")
    with pytest.raises(ray.exceptions.RayTaskError, match="enable_arrow_backed_pandas_conversion"):
        made.take_all()


@pytest.mark.contract("F10.19", "F10.24")
def test_files_and_tables_carry_no_marks(rd: Any, frame: pd.DataFrame, tmp_path: Any) -> None:
    dataset = rd.from_pandas(frame)
    (batch,) = dataset.iter_batches(batch_format="pyarrow")
    assert not any(field.metadata for field in batch.schema)
    dataset.write_parquet(str(tmp_path))
    assert types(rd.read_parquet(str(tmp_path)).to_pandas())["whole"] == "int64[pyarrow]"
