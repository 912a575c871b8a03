"""Columns of arrays in DataFrames, as programs pass tensors through pandas."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from ray.data.extensions import (
    ArrowTensorArray,
    ArrowTensorType,
    TensorArray,
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
