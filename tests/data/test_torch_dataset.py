"""``DataIterator.to_torch``: pairs of features and label."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="makes tensors")

CLUSTER = {"num_cpus": 2}
ROWS = 5


@pytest.fixture
def dataset(rd: Any) -> Any:
    rows = [
        {"a": i, "b": i / 2, "c": i + 1, "y": i % 2, "v": np.array([i, i + 1.0]), "s": "x"}
        for i in range(ROWS)
    ]
    return rd.from_items(rows, override_num_blocks=2)


def of(dataset: Any, **options: Any) -> Any:
    with pytest.warns(DeprecationWarning, match="iter_torch_batches"):
        return dataset.iterator().to_torch(**{"batch_size": 2, **options})


@pytest.mark.contract("F10.23")
def test_columns_side_by_side_and_a_label(dataset: Any) -> None:
    made = of(dataset.select_columns(["a", "b", "y"]), label_column="y")
    assert isinstance(made, torch.utils.data.IterableDataset)
    for _ in range(2):  # each is an epoch
        features, labels = zip(*made, strict=True)
        assert [tuple(f.shape) for f in features] == [(2, 2), (2, 2), (1, 2)]
        assert torch.cat(features).tolist() == [[i, i / 2] for i in range(ROWS)]
        assert torch.cat(labels).tolist() == [[0], [1], [0], [1], [0]]
    loaded = list(torch.utils.data.DataLoader(made, batch_size=None))
    assert torch.equal(loaded[0][0], features[0])


@pytest.mark.contract("F10.23")
def test_without_a_label_it_is_none(dataset: Any) -> None:
    (features, label), *_ = of(dataset, feature_columns=["c"], unsqueeze_feature_tensors=False)
    assert features.tolist() == [1, 2]
    assert label is None


@pytest.mark.contract("F10.23")
@pytest.mark.parametrize("dtypes", [torch.float16, {"p": torch.float16, "q": torch.float16}])
def test_several_tensors_by_name(dataset: Any, dtypes: Any) -> None:
    made = of(
        dataset,
        label_column="y",
        label_column_dtype=torch.int8,
        unsqueeze_label_tensor=False,
        feature_columns={"p": ["a"], "q": ["b", "c"]},
        feature_column_dtypes=dtypes,
    )
    features, label = next(iter(made))
    assert {k: (tuple(t.shape), t.dtype) for k, t in features.items()} == {
        "p": ((2, 1), torch.float16),
        "q": ((2, 2), torch.float16),
    }
    assert (label.tolist(), label.dtype) == ([0, 1], torch.int8)


@pytest.mark.contract("F10.23")
def test_several_tensors_in_a_list(dataset: Any) -> None:
    given = {"feature_columns": [["a"], ["b", "c"]]}
    (one, two), _ = next(iter(of(dataset, **given)))
    assert (one.tolist(), two.tolist()) == ([[0], [1]], [[0, 1], [0.5, 2]])
    types = [torch.float16, torch.float32]
    found, _ = next(iter(of(dataset, **given, feature_column_dtypes=types)))
    assert [t.dtype for t in found] == types


@pytest.mark.contract("F10.23")
def test_columns_of_arrays(dataset: Any) -> None:
    shapes = {
        unsqueezed: tuple(
            next(iter(of(dataset, feature_columns=["v"], unsqueeze_feature_tensors=unsqueezed)))[
                0
            ].shape
        )
        for unsqueezed in (True, False)
    }
    assert shapes == {True: (2, 1, 2), False: (2, 2)}


@pytest.mark.contract("F10.23")
@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"feature_columns": ["bb"]}, ValueError, "no column 'bb'.*did you mean 'b'"),
        ({"feature_columns": ["a"], "label_column": "z"}, ValueError, "no column 'z'"),
        ({"feature_columns": ["s"]}, ValueError, "column 's'"),
        ({"feature_columns": ["a", "v"]}, ValueError, "do not make one tensor"),
        (
            {"feature_columns": ["a", "c"], "unsqueeze_feature_tensors": False},
            ValueError,
            "unsqueeze_feature_tensors=True",
        ),
    ],
)
def test_columns_that_make_no_tensor(
    dataset: Any, options: Any, error: type[Exception], said: str
) -> None:
    made = of(dataset, **options)
    with pytest.raises(error, match=said):
        list(made)


@pytest.mark.contract("F10.23")
def test_types_of_another_form_than_the_columns(dataset: Any) -> None:
    half, named = torch.float16, {"p": ["a"], "q": ["b"]}
    wrong = [
        ({"feature_columns": ["a"], "feature_column_dtypes": [half]}, TypeError, "one torch.dtype"),
        ({"feature_columns": named, "feature_column_dtypes": [half]}, TypeError, "is a dict"),
        ({"feature_columns": named, "feature_column_dtypes": {"p": half}}, ValueError, "same keys"),
        ({"feature_columns": [["a"]], "feature_column_dtypes": {}}, TypeError, "list of lists"),
        ({"feature_columns": [["a"]], "feature_column_dtypes": [half] * 2}, ValueError, "length"),
        ({"feature_columns": {"p": []}}, ValueError, "without columns"),
    ]
    for options, error, said in wrong:
        with pytest.raises(error, match=said):
            of(dataset, **options)
