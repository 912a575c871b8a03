"""Datasets of values that the program has."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import ray


def column(dataset: Any, name: str) -> list[Any]:
    return [row[name] for row in dataset.take_all()]


@pytest.mark.contract("F10.01")
def test_items_that_are_dicts_become_columns(rd: Any) -> None:
    rows = [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]
    dataset = rd.from_items(rows)
    assert dataset.take_all() == rows
    assert isinstance(dataset, rd.dataset.MaterializedDataset)
    assert dataset.columns() == ["a", "b"]
    assert dataset.num_blocks() == 2


@pytest.mark.contract("F10.01")
def test_items_that_are_no_dicts_are_the_column_item(rd: Any) -> None:
    assert rd.from_items([1, 2]).take_all() == [{"item": 1}, {"item": 2}]


@pytest.mark.contract("F10.01")
def test_items_of_every_kind_come_back(rd: Any) -> None:
    rows = [
        {"n": None, "l": [1, 2], "s": "ü", "d": {"k": 1}, "b": b"\x00", "t": True},
        {"n": 1.5, "l": [], "s": "", "d": {"k": 2}, "b": b"", "t": False},
    ]
    assert rd.from_items(rows).take_all() == rows


@pytest.mark.contract("F10.01")
def test_blocks_of_items(rd: Any) -> None:
    dataset = rd.from_items(list(range(10)), override_num_blocks=3)
    assert dataset.num_blocks() == 3
    assert column(dataset, "item") == list(range(10))


@pytest.mark.contract("F10.01", "F10.20")
def test_no_items_at_all(rd: Any) -> None:
    dataset = rd.from_items([])
    assert (dataset.count(), dataset.take_all(), dataset.schema()) == (0, [], None)
    assert list(dataset.iter_batches()) == []
    assert dataset.map(lambda row: row).take_all() == []
    with pytest.raises(ValueError, match="empty"):
        dataset.take_batch()


@pytest.mark.contract("F10.02")
def test_range(rd: Any) -> None:
    dataset = rd.range(1000)
    assert dataset.count() == 1000
    assert dataset.take(2) == [{"id": 0}, {"id": 1}]
    assert sorted(column(dataset, "id")) == list(range(1000))
    assert rd.range(6, override_num_blocks=3).materialize().num_blocks() == 3


@pytest.mark.contract("F10.02")
def test_range_of_tensors(rd: Any) -> None:
    batch = rd.range_tensor(3, shape=(2, 2)).take_batch()
    assert batch["data"].shape == (3, 2, 2)
    assert batch["data"][:, 1, 1].tolist() == [0, 1, 2]


@pytest.mark.contract("F10.02")
@pytest.mark.parametrize("dtype", ["uint8", "int64", "float32", "float16", "bool"])
def test_arrays_keep_shape_and_type(rd: Any, dtype: str) -> None:
    array = (np.arange(24).reshape(4, 3, 2) % 2).astype(dtype)
    batch = rd.from_numpy([array[:2], array[2:]]).take_batch()
    assert batch["data"].dtype == array.dtype
    np.testing.assert_array_equal(batch["data"], array)


@pytest.mark.contract("F10.02")
def test_arrays_of_different_shapes(rd: Any) -> None:
    arrays = [np.ones((2, 3)), np.zeros((1, 4))]
    batch = rd.from_items([{"x": a} for a in arrays]).take_batch()
    assert [a.shape for a in batch["x"]] == [(2, 3), (1, 4)]


@pytest.mark.contract("F10.02")
def test_frames(rd: Any) -> None:
    frames = [pd.DataFrame({"a": [1, 2], "b": ["x", "y"]}), pd.DataFrame({"a": [3], "b": ["z"]})]
    dataset = rd.from_pandas(frames)
    assert dataset.num_blocks() == 2
    pd.testing.assert_frame_equal(
        dataset.to_pandas().astype({"b": object}),
        pd.concat(frames, ignore_index=True).astype({"b": object}),
    )


@pytest.mark.contract("F10.02")
def test_tables_and_their_references(rd: Any) -> None:
    table = pa.table({"a": [1, 2, 3]})
    assert column(rd.from_arrow([table, table]), "a") == [1, 2, 3, 1, 2, 3]
    assert column(rd.from_arrow_refs(ray.put(table)), "a") == [1, 2, 3]
    assert column(rd.from_numpy_refs([ray.put(np.arange(2))]), "data") == [0, 1]


@pytest.mark.contract("F10.02")
def test_a_slice_of_a_table_is_stored_without_the_rest(rd: Any) -> None:
    table = pa.table({"a": np.arange(1_000_000)})
    assert rd.from_arrow(table.slice(5, 2)).take_all() == [{"a": 5}, {"a": 6}]
    assert rd.from_arrow(table.slice(5, 2)).size_bytes() < 1000


@pytest.mark.contract("F10.02")
def test_torch_datasets(rd: Any) -> None:
    torch = pytest.importorskip("torch")
    dataset = rd.from_torch(torch.utils.data.TensorDataset(torch.arange(3)))
    assert [int(item[0]) for item in column(dataset, "item")] == [0, 1, 2]


@pytest.mark.contract("F10.02")
def test_a_dict_of_huggingface_datasets_is_refused(rd: Any) -> None:
    datasets = pytest.importorskip("datasets", reason="Hugging Face datasets are not installed")
    one = datasets.Dataset.from_dict({"s": ["a", "b"], "l": [0, 1]})
    assert rd.from_huggingface(one).take_all() == [{"s": "a", "l": 0}, {"s": "b", "l": 1}]
    with pytest.raises(DeprecationWarning, match="train"):
        rd.from_huggingface(datasets.DatasetDict({"train": one}))


@pytest.mark.contract("F10.20")
def test_what_is_known_of_a_dataset(rd: Any, capsys: pytest.CaptureFixture[str]) -> None:
    dataset = rd.range(1000)
    assert dataset.size_bytes() == 8000
    schema = dataset.schema()
    assert (schema.names, schema.base_schema) == (["id"], pa.schema([("id", pa.int64())]))
    assert "id" in repr(schema)
    assert "int64" in repr(schema)
    assert "shape: (1000, 1)" in repr(dataset)
    with pytest.raises(NotImplementedError, match="materialize"):
        dataset.map(lambda row: row).num_blocks()
    dataset.map(lambda row: row).explain()
    assert "ReadRange" in capsys.readouterr().out


@pytest.mark.contract("F10.20")
def test_a_materialized_dataset_shows_its_rows(rd: Any) -> None:
    shown = repr(rd.range(100).materialize())
    assert "│ 0" in shown
    assert "│ 99" in shown
    assert "Showing 10 of 100 rows" in shown


@pytest.mark.contract("F10.19")
def test_taking(rd: Any, capsys: pytest.CaptureFixture[str]) -> None:
    dataset = rd.range(30)
    assert len(dataset.take()) == 20
    assert len(dataset.take_all()) == 30
    with pytest.raises(ValueError, match="more than the given limit"):
        dataset.take_all(limit=29)
    assert dataset.take_batch(3)["id"].tolist() == [0, 1, 2]
    assert list(dataset.take_batch(3, batch_format="pandas").columns) == ["id"]
    dataset.show(2)
    assert capsys.readouterr().out == "{'id': 0}\n{'id': 1}\n"
    assert next(iter(dataset.iter_rows())) == {"id": 0}


@pytest.mark.contract("F10.21")
def test_conversions(rd: Any) -> None:
    dataset = rd.range(6, override_num_blocks=2)
    assert dataset.to_pandas()["id"].tolist() == list(range(6))
    with pytest.raises(ValueError, match="limit"):
        dataset.to_pandas(limit=5)
    assert sum(ray.get(ref).num_rows for ref in dataset.to_arrow_refs()) == 6
    assert sum(len(ray.get(ref)) for ref in dataset.to_pandas_refs()) == 6
    arrays = ray.get(dataset.to_numpy_refs(column="id"))
    assert np.concatenate(arrays).tolist() == list(range(6))


@pytest.mark.contract("F10.02")
def test_a_range_below_zero_is_empty(rd: Any) -> None:
    assert rd.range(-1).count() == 0
    assert rd.range(-1).take_all() == []
    assert bool(rd.range(0)) is True  # there is a dataset, as on Ray
