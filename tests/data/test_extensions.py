"""Columns of arrays in DataFrames, as programs pass tensors through pandas."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from ray.data.extensions import (
    ArrowPythonObjectArray,
    ArrowPythonObjectScalar,
    ArrowPythonObjectType,
    ArrowTensorArray,
    ArrowTensorType,
    ArrowVariableShapedTensorArray,
    PythonObjectArray,
    PythonObjectDtype,
    TensorArray,
    TensorArrayElement,
    TensorDtype,
    get_arrow_extension_tensor_types,
)

CLUSTER = {"num_cpus": 4}

ARRAY = np.arange(24.0).reshape(4, 3, 2)


@pytest.mark.contract("F10.33")
def test_a_column_of_arrays_in_pandas() -> None:
    frame = pd.DataFrame({"i": range(4), "x": TensorArray(ARRAY)})
    assert frame["x"].dtype == TensorDtype((3, 2), np.float64)
    assert TensorDtype.construct_from_string(frame["x"].dtype.name) == frame["x"].dtype
    assert np.array_equal(frame["x"].to_numpy(), ARRAY)
    assert np.array_equal(frame["x"][2], ARRAY[2])
    assert np.array_equal(frame[frame["i"] > 1]["x"].to_numpy(), ARRAY[2:])
    assert np.array_equal(frame.iloc[[3, 0]]["x"].to_numpy(), ARRAY[[3, 0]])
    both = pd.concat([frame, frame], ignore_index=True)
    assert np.array_equal(both["x"].to_numpy(), np.concatenate([ARRAY, ARRAY]))
    assert both["x"].dtype == frame["x"].dtype
    assert np.array_equal(frame.reindex([0, 9])["x"].isna(), [False, True])
    assert "x" in repr(frame)
    again = pickle.loads(pickle.dumps(frame))
    assert np.array_equal(again["x"].to_numpy(), ARRAY)
    assert np.array_equal(TensorArray(list(ARRAY)).to_numpy(), ARRAY)
    for wrong in ([np.zeros(2), np.zeros(3)], np.array(["a"])):
        with pytest.raises(TypeError):
            TensorArray(wrong)


@pytest.mark.contract("F10.33", "F10.02")
def test_datasets_take_and_give_them(rd: Any) -> None:
    dataset = rd.from_pandas(pd.DataFrame({"i": range(4), "x": TensorArray(ARRAY)}))
    assert isinstance(dataset.schema().types[1], get_arrow_extension_tensor_types())
    assert np.array_equal(dataset.take_batch(4)["x"], ARRAY)

    def doubled(frame: pd.DataFrame) -> pd.DataFrame:
        return frame.assign(x=TensorArray(np.stack(frame["x"]) * 2))

    made = dataset.map_batches(doubled, batch_format="pandas")
    assert np.array_equal(made.take_batch(4)["x"], ARRAY * 2)
    assert made.schema().types[1] == dataset.schema().types[1]


@pytest.mark.contract("F10.33")
def test_columns_of_arrays_in_arrow(rd: Any) -> None:
    table = pa.table({"x": ArrowTensorArray.from_numpy(ARRAY)})
    assert table.schema.field("x").type == ArrowTensorType((3, 2), pa.float64())
    assert np.array_equal(rd.from_arrow(table).take_batch(4)["x"], ARRAY)
    uneven = ArrowTensorArray.from_numpy([np.zeros((1, 2)), np.ones((2, 2))])
    assert isinstance(uneven.type, get_arrow_extension_tensor_types())


OBJECTS: list[Any] = [{1, 2}, None, [3], complex(0, 1)]


@pytest.mark.contract("F10.33")
def test_a_column_of_python_objects_in_pandas() -> None:
    frame = pd.DataFrame({"i": range(4), "x": PythonObjectArray(OBJECTS)})
    assert frame["x"].dtype == PythonObjectDtype() == "python_object()"
    assert list(frame["x"]) == OBJECTS
    assert frame["x"].isna().tolist() == [False, True, False, False]
    assert list(frame[frame["i"] > 1]["x"]) == OBJECTS[2:]
    assert list(pd.concat([frame, frame], ignore_index=True)["x"]) == OBJECTS * 2
    assert list(frame.reindex([0, 9])["x"]) == [{1, 2}, None]
    assert list(pd.Series(OBJECTS, dtype="python_object()")) == OBJECTS
    assert (frame["x"].array == frame["x"].array.copy()).tolist() == [True] * 4
    assert "x" in repr(frame)
    again = pickle.loads(pickle.dumps(frame))
    assert list(again["x"]) == OBJECTS
    with pytest.raises(TypeError, match="from 'objects'"):
        PythonObjectDtype.construct_from_string("objects")


@pytest.mark.contract("F10.33")
def test_a_column_of_python_objects_in_arrow() -> None:
    column = ArrowPythonObjectArray.from_objects(OBJECTS)
    assert isinstance(column, ArrowPythonObjectArray)
    assert column.type == ArrowPythonObjectType()
    assert column.to_pylist() == OBJECTS
    assert isinstance(column[0], ArrowPythonObjectScalar)
    assert column[0].as_py() == {1, 2}
    assert column.slice(2).to_numpy().tolist() == OBJECTS[2:]
    frame = pa.table({"x": column}).to_pandas()
    assert frame["x"].dtype == PythonObjectDtype()
    assert pa.Array.from_pandas(frame["x"]).to_pylist() == OBJECTS
    again = pickle.loads(pickle.dumps(column))
    assert again.to_pylist() == OBJECTS


@pytest.mark.contract("F10.33")
def test_datasets_of_python_objects(rd: Any) -> None:
    frame = pd.DataFrame({"x": PythonObjectArray(OBJECTS)})
    dataset = rd.from_pandas(frame)
    assert [row["x"] for row in dataset.take_all()] == OBJECTS
    assert list(dataset.to_pandas()["x"]) == OBJECTS
    kept = dataset.filter(lambda row: row["x"] is not None)
    assert [row["x"] for row in kept.take_all()] == [{1, 2}, [3], complex(0, 1)]


@pytest.mark.contract("F10.33")
def test_marked_arrays_and_arrays_of_several_shapes() -> None:
    rows = [TensorArrayElement(row) for row in ARRAY]
    assert np.array_equal(TensorArray(rows).to_numpy(), ARRAY)
    assert rows[1].to_numpy() is not None
    assert np.array_equal(np.asarray(rows[1]), ARRAY[1])
    assert TensorArray(ARRAY).any()
    assert TensorArray(ARRAY > 0).all(axis=0).tolist() == (ARRAY > 0).all(axis=0).tolist()
    assert not TensorDtype((2,), "float32").is_variable_shaped
    for arrays in ([np.zeros((1, 2)), np.ones((2, 2))], [np.zeros((2, 2)), np.ones((2, 2))]):
        uneven = ArrowVariableShapedTensorArray.from_numpy(arrays)
        assert uneven.type.ndim == 2
