"""Preprocessors: fitted on a dataset, used on datasets and batches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from ray.data import preprocessors
from ray.data.preprocessor import SerializablePreprocessorBase
from ray.data.preprocessors.version_support import (
    SerializablePreprocessor,
    UnknownPreprocessorError,
)

CLUSTER = {"num_cpus": 4}

NUMBERS = [{"a": 1.0, "b": 2}, {"a": 3.0, "b": 2}, {"a": 5.0, "b": 8}]
WORDS = [{"s": "x", "l": ["p", "q"]}, {"s": "y", "l": ["q"]}, {"s": "x", "l": []}]
HOLES = [{"a": 1.0, "s": "x"}, {"a": None, "s": "x"}, {"a": 3.0, "s": None}]
TEXTS = [{"t": "a b a"}, {"t": "b c"}]


def made(rd: Any, preprocessor: Any, rows: list[Any], column: str) -> list[Any]:
    dataset = rd.from_items(rows, override_num_blocks=2)
    found = [row[column] for row in preprocessor.fit_transform(dataset).take_all()]
    return [v.tolist() if isinstance(v, np.ndarray) else v for v in found]


@pytest.mark.contract("F10.30")
@pytest.mark.parametrize(
    ("name", "options", "column", "expected"),
    [
        ("StandardScaler", {"columns": ["a"]}, "a", [-1.224744871391589, 0, 1.224744871391589]),
        ("MinMaxScaler", {"columns": ["a"]}, "a", [0, 0.5, 1]),
        ("MaxAbsScaler", {"columns": ["a"]}, "a", [0.2, 0.6, 1]),
        ("Normalizer", {"columns": ["a", "b"], "norm": "l1"}, "a", [1 / 3, 0.6, 5 / 13]),
        ("Normalizer", {"columns": ["a", "b"]}, "b", [0.894427191, 0.554700196, 0.847998304]),
        ("PowerTransformer", {"columns": ["a"], "power": 0.5}, "a", [0.828427125, 2, 2.898979487]),
        (
            "PowerTransformer",
            {"columns": ["a"], "power": 0.5, "method": "box-cox"},
            "a",
            [0, 1.464101615, 2.472135955],
        ),
        ("CustomKBinsDiscretizer", {"columns": ["a"], "bins": [0, 2, 4, 6]}, "a", [0, 1, 2]),
        ("UniformKBinsDiscretizer", {"columns": ["a"], "bins": 2}, "a", [0, 0, 1]),
    ],
)
def test_numbers(
    rd: Any, name: str, options: dict[str, Any], column: str, expected: list[float]
) -> None:
    preprocessor = getattr(preprocessors, name)(**options)
    assert made(rd, preprocessor, NUMBERS, column) == pytest.approx(expected)


@pytest.mark.contract("F10.30")
@pytest.mark.heliostat_only("Ray's needs a package of its own")
def test_robust_scaler(rd: Any) -> None:
    assert made(rd, preprocessors.RobustScaler(["a"]), NUMBERS, "a") == [-1, 0, 1]


@pytest.mark.contract("F10.30")
@pytest.mark.parametrize(
    ("name", "options", "column", "expected"),
    [
        ("OneHotEncoder", {"columns": ["s"]}, "s", [[1, 0], [0, 1], [1, 0]]),
        ("OneHotEncoder", {"columns": ["s"], "max_categories": {"s": 1}}, "s", [[1], [0], [1]]),
        ("OrdinalEncoder", {"columns": ["s"]}, "s", [0, 1, 0]),
        ("OrdinalEncoder", {"columns": ["l"]}, "l", [[0, 1], [1], []]),
        ("LabelEncoder", {"label_column": "s"}, "s", [0, 1, 0]),
        ("MultiHotEncoder", {"columns": ["l"]}, "l", [[1, 1], [0, 1], [0, 0]]),
        ("Categorizer", {"columns": ["s"]}, "s", ["x", "y", "x"]),
    ],
)
def test_categories(
    rd: Any, name: str, options: dict[str, Any], column: str, expected: list[Any]
) -> None:
    assert made(rd, getattr(preprocessors, name)(**options), WORDS, column) == expected


@pytest.mark.contract("F10.30")
def test_labels_and_back(rd: Any) -> None:
    encoder = preprocessors.LabelEncoder("s")
    dataset = rd.from_items(WORDS)
    numbers = encoder.fit_transform(dataset)
    assert [row["s"] for row in encoder.inverse_transform(numbers).take_all()] == ["x", "y", "x"]


@pytest.mark.contract("F10.30")
def test_missing_values(rd: Any) -> None:
    imputer = preprocessors.SimpleImputer
    assert made(rd, imputer(["a"]), HOLES, "a") == [1, 2, 3]
    assert made(rd, imputer(["s"], strategy="most_frequent"), HOLES, "s") == ["x", "x", "x"]
    constant = imputer(["s"], strategy="constant", fill_value="z")
    assert made(rd, constant, HOLES, "s") == ["x", "x", "z"]
    with pytest.raises(ValueError, match="fill_value"):
        imputer(["s"], strategy="constant")


@pytest.mark.contract("F10.30")
def test_text(rd: Any) -> None:
    pre = preprocessors
    assert made(rd, pre.Tokenizer(["t"]), TEXTS, "t") == [["a", "b", "a"], ["b", "c"]]
    hashed = made(rd, pre.HashingVectorizer(["t"], num_features=4), TEXTS, "t")
    assert hashed == [[0, 1, 0, 2], [0, 1, 1, 0]]
    rows = [{"a": 1, "b": 2}, {"a": 0, "b": 3}]
    hasher = pre.FeatureHasher(["a", "b"], num_features=4, output_column="h")
    assert made(rd, hasher, rows, "h") == [[0, 2, 0, 1], [0, 3, 0, 0]]


@pytest.mark.contract("F10.30")
@pytest.mark.heliostat_only("this release of Ray's fails with pandas 3")
def test_counts_of_tokens(rd: Any) -> None:
    assert made(rd, preprocessors.CountVectorizer(["t"]), TEXTS, "t") == [[2, 1, 0], [0, 1, 1]]


@pytest.mark.contract("F10.30")
def test_vectors_and_chains(rd: Any) -> None:
    pre = preprocessors
    joined = pre.Concatenator(["a", "b"], output_column_name="v", dtype=np.float32)
    assert made(rd, joined, NUMBERS, "v") == [[1, 2], [3, 2], [5, 8]]
    chain = pre.Chain(pre.MinMaxScaler(["a"]), pre.Concatenator(["a", "b"]))
    assert made(rd, chain, NUMBERS, "concat_out") == [[0, 2], [0.5, 2], [1, 8]]


@pytest.mark.contract("F10.30")
@pytest.mark.parametrize("flatten", [False, True])
@pytest.mark.parametrize("columns", [["c"], ["a", "c"], ["c", "d"]], ids=str)
@pytest.mark.parametrize(("raises", "kind"), [(True, ValueError), (False, KeyError)])
def test_vectors_of_columns_that_are_not_there(
    rd: Any, columns: list[str], raises: bool, kind: type[Exception], flatten: bool
) -> None:
    joined = preprocessors.Concatenator(columns, raise_if_missing=raises, flatten=flatten)
    with pytest.raises(kind, match="c"):
        joined.transform_batch(pd.DataFrame(NUMBERS))
    with pytest.raises(kind, match="c"):
        joined.transform(rd.from_items(NUMBERS)).take_all()


@pytest.mark.contract("F10.30")
def test_pictures(rd: Any) -> None:
    torch = pytest.importorskip("torch")
    preprocessor = preprocessors.TorchVisionPreprocessor(
        columns=["data"], transform=lambda array: torch.as_tensor(array) * 2
    )
    batch = preprocessor.transform(rd.from_numpy(np.ones((3, 2, 2)))).take_batch()
    np.testing.assert_array_equal(batch["data"], np.full((3, 2, 2), 2.0))


@pytest.mark.contract("F10.30")
def test_batches_and_what_is_not_fitted(rd: Any) -> None:
    from ray.data.preprocessor import PreprocessorNotFittedException

    scaler = preprocessors.StandardScaler(["a"], output_columns=["z"])
    with pytest.raises(PreprocessorNotFittedException):
        scaler.transform(rd.from_items(NUMBERS))
    scaler.fit(rd.from_items(NUMBERS))
    assert scaler.stats_["mean(a)"] == 3
    frame = scaler.transform_batch(pd.DataFrame(NUMBERS))
    assert frame["z"].tolist() == pytest.approx([-1.224744871391589, 0, 1.224744871391589])
    assert frame["a"].tolist() == [1, 3, 5]


@pytest.mark.contract("F10.30")
def test_what_a_preprocessor_says_of_itself(rd: Any) -> None:
    scaler = preprocessors.StandardScaler(["a"], output_columns=["z"])
    status = type(scaler).FitStatus
    assert scaler.fit_status() is status.NOT_FITTED
    assert not scaler.has_stats()
    dataset = rd.from_items(NUMBERS)
    options = {"transform_num_cpus": 1, "transform_batch_size": 2, "transform_concurrency": 1}
    once = scaler.fit_transform(dataset, **options).take_all()
    assert scaler.fit_status() is status.FITTED
    assert scaler.has_stats()
    assert (scaler.get_input_columns(), scaler.get_output_columns()) == (["a"], ["z"])
    assert preprocessors.LabelEncoder("s").get_output_columns() == ["s"]
    assert preprocessors.Normalizer(["a"]).fit_status() is status.NOT_FITTABLE
    again = type(scaler).deserialize(scaler.serialize())
    assert again.transform(dataset).take_all() == once


@pytest.mark.contract("F10.30")
def test_missing_values_have_no_category(rd: Any) -> None:
    from ray.data import preprocessors as pre

    rows = [{"b": "x", "c": ["u"]}, {"b": None, "c": None}, {"b": "y", "c": ["v", "u"]}]
    dataset = rd.from_items(rows)
    for encoder in (pre.OneHotEncoder(["b"]), pre.OrdinalEncoder(["b"]), pre.LabelEncoder("b")):
        with pytest.raises(ValueError, match="'b'"):
            encoder.fit(dataset)
    filled = pre.Chain(
        pre.SimpleImputer(["b"], strategy="constant", fill_value="-"), pre.OrdinalEncoder(["b"])
    ).fit_transform(dataset)
    assert sorted(row["b"] for row in filled.take_all()) == [0, 1, 2]
    assert pre.MultiHotEncoder(["c"]).fit(dataset).stats_ == {"unique_values(c)": {"u": 0, "v": 1}}
    assert pre.Categorizer(["b"]).fit(dataset).has_stats()


@pytest.mark.contract("F10.30")
def test_preprocessors_show_their_arguments() -> None:
    from ray.data import preprocessors as pre

    shown = repr(pre.OneHotEncoder(["d"], max_categories={"d": 1}))
    assert shown == "OneHotEncoder(columns=['d'], max_categories={'d': 1}, output_columns=['d'])"
    assert "tokenization_fn=simple_split_tokenizer," in repr(pre.Tokenizer(["t"]))


@pytest.mark.parametrize(
    ("module", "names"),
    [
        ("chain", "Chain"),
        ("concatenator", "Concatenator"),
        ("discretizer", "CustomKBinsDiscretizer UniformKBinsDiscretizer"),
        ("encoder", "Categorizer LabelEncoder MultiHotEncoder OneHotEncoder OrdinalEncoder"),
        ("hasher", "FeatureHasher"),
        ("imputer", "SimpleImputer"),
        ("normalizer", "Normalizer"),
        ("scaler", "MaxAbsScaler MinMaxScaler RobustScaler StandardScaler"),
        ("tokenizer", "Tokenizer"),
        ("torch", "TorchVisionPreprocessor"),
        ("transformer", "PowerTransformer"),
        ("vectorizer", "CountVectorizer HashingVectorizer"),
    ],
)
@pytest.mark.contract("F10.30")
def test_modules_of_preprocessors(module: str, names: str) -> None:
    import importlib

    found = importlib.import_module(f"ray.data.preprocessors.{module}")
    for name in names.split():
        assert getattr(found, name) is getattr(preprocessors, name)


def test_versions_and_ids_of_classes() -> None:
    class Own(preprocessors.MinMaxScaler):
        pass

    assert Own.get_version() == preprocessors.MinMaxScaler.get_version() == 1
    Own.set_version(3)
    assert (Own.get_version(), preprocessors.MinMaxScaler.get_version()) == (3, 1)
    ids = {
        "MinMaxScaler": "io.ray.preprocessors.min_max_scaler",
        "CustomKBinsDiscretizer": "io.ray.preprocessors.custom_kbins_discretizer",
        "TorchVisionPreprocessor": "io.ray.preprocessors.torchvision_preprocessor",
    }
    for name, identifier in ids.items():
        assert getattr(preprocessors, name).get_preprocessor_class_id() == identifier
    assert Own.get_preprocessor_class_id().endswith(".Own")
    Own.set_preprocessor_class_id("org.example.own")
    assert Own.get_preprocessor_class_id() == "org.example.own"
    assert preprocessors.Chain.preferred_batch_format().value == "pandas"


def _shift(version: int, name: str) -> type[Any]:
    @SerializablePreprocessor(version=version, identifier="org.example.shift")
    class Shift(SerializablePreprocessorBase):
        def __init__(self, columns: list[str]) -> None:
            super().__init__()
            setattr(self, name, columns)

        def _fit(self, ds: Any) -> None:
            self.stats_ = {"by": 1.0}

        def _transform_pandas(self, df: pd.DataFrame) -> pd.DataFrame:
            return df.assign(**{c: df[c] + self.stats_["by"] for c in getattr(self, name)})

        def _get_serializable_fields(self) -> dict[str, Any]:
            return {name: getattr(self, name)}

        def _set_serializable_fields(self, fields: dict[str, Any], version: int) -> None:
            setattr(self, name, fields["columns" if version == 1 else name])

    return Shift


def test_bytes_outlive_a_change_of_the_class() -> None:
    fitted = _shift(1, "columns")(["x"]).fit(None)
    data = fitted.serialize()
    later = _shift(2, "names")
    again = preprocessors.Preprocessor.deserialize(data)
    assert type(again) is later
    assert again.names == ["x"]
    assert again.fit_status() == again.FitStatus.FITTED
    assert again.transform_batch(pd.DataFrame({"x": [1.0]}))["x"].tolist() == [2.0]
    later.set_preprocessor_class_id("org.example.gone")
    with pytest.raises(UnknownPreprocessorError, match="org\\.example\\.gone") as caught:
        preprocessors.Preprocessor.deserialize(again.serialize())
    assert caught.value.preprocessor_type == "org.example.gone"
    with pytest.raises(TypeError, match="SerializablePreprocessorBase"):
        SerializablePreprocessor(version=1, identifier="x")(preprocessors.MinMaxScaler)
