"""Batches for TensorFlow. It is not among the packages that tests install, for its size."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow", reason="needs TensorFlow")


@pytest.fixture
def dataset(rd: Any) -> Any:
    rows = [
        {"x": float(i), "y": i, "s": "ab", "f": np.full((2, 3), i, np.float32), "l": [i] * (i + 1)}
        for i in range(5)
    ]
    return rd.from_items(rows, override_num_blocks=2)


@pytest.mark.contract("F10.23")
def test_features_and_labels(dataset: Any) -> None:
    made = dataset.to_tf("x", "y", batch_size=2)
    assert [spec.dtype for spec in made.element_spec] == [tf.float64, tf.int64]
    for _ in range(2):  # each is an epoch
        found = [(x.numpy().tolist(), y.numpy().tolist()) for x, y in made]
        assert found == [([0, 1], [0, 1]), ([2, 3], [2, 3]), ([4], [4])]


@pytest.mark.contract("F10.23")
def test_several_columns_are_a_dict(dataset: Any) -> None:
    made = dataset.to_tf(["x", "f"], ["y"], additional_columns="s", batch_size=2, drop_last=True)
    found = list(made)
    assert [(x["f"].shape, y["y"].numpy().tolist()) for x, y, _ in found] == [
        ((2, 2, 3), [0, 1]),
        ((2, 2, 3), [2, 3]),
    ]
    assert found[0][2].numpy().tolist() == [b"ab", b"ab"]


@pytest.mark.contract("F10.23")
def test_lists_are_ragged_and_types_may_be_given(dataset: Any) -> None:
    lists = [x.to_list() for x, _ in dataset.to_tf("l", "y", batch_size=2)]
    assert lists == [[[0], [1, 1]], [[2, 2, 2], [3, 3, 3, 3]], [[4, 4, 4, 4, 4]]]
    given = tf.TensorSpec((None,), tf.float16)
    made = dataset.to_tf("x", "y", batch_size=5, feature_type_spec=given)
    assert [x.dtype for x, _ in made] == [tf.float16]


@pytest.mark.contract("F10.23")
def test_batches_of_tensors(dataset: Any) -> None:
    numbers = dataset.select_columns(["x", "y"])
    (batch,) = numbers.iter_tf_batches(dtypes={"x": tf.float16, "y": tf.int8})
    assert {name: (t.dtype, tuple(t.shape)) for name, t in batch.items()} == {
        "x": (tf.float16, (5,)),
        "y": (tf.int8, (5,)),
    }


@pytest.mark.contract("F10.23")
def test_columns_that_make_no_tensors(rd: Any, dataset: Any) -> None:
    with pytest.raises(ValueError, match="'z'"):
        dataset.to_tf("z", "y")
    structs = rd.from_items([{"a": {"b": 1}, "y": 1}])
    with pytest.raises(ValueError, match="no tensors of column 'a'"):
        structs.to_tf("a", "y")


@pytest.mark.contract("F10.05")
def test_rows_of_a_tensorflow_dataset(rd: Any) -> None:
    slices = tf.data.Dataset.from_tensor_slices({"a": [1, 2]})
    assert [row["a"] for row in rd.from_tf(slices).take_all()] == [1, 2]
