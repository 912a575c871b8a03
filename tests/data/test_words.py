"""How datasets look when they are printed, and the classes of errors for arguments that are wrong."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

CLUSTER = {"num_cpus": 4}


def same(batch: Any) -> Any:
    return batch


class Same:
    def __call__(self, batch: Any) -> Any:
        return batch


RANGE = "Dataset(num_rows=5, schema={id: int64})"

CHAINS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "one": (lambda ds: ds.map(same), f"Map(same)\n+- {RANGE}"),
    "several": (
        lambda ds: ds.map_batches(same).filter(same).flat_map(same),
        f"FlatMap(same)\n+- Filter(same)\n   +- MapBatches(same)\n      +- {RANGE}",
    ),
    "order": (
        lambda ds: ds.map(same).random_shuffle().sort("id").repartition(2).limit(2),
        (
            "limit=2\n+- Repartition\n   +- Sort\n      +- RandomShuffle\n         +- Map(same)\n"
            f"            +- {RANGE}"
        ),
    ),
    "a class": (lambda ds: ds.map_batches(Same, concurrency=1), f"MapBatches(Same)\n+- {RANGE}"),
    "two sources": (
        lambda ds: ds.map(same).union(ds),
        "Union\n+- Map(same)\n   +- Dataset(num_rows=?, schema=Unknown schema)",
    ),
    "zip": (
        lambda ds: ds.map(same).zip(ds),
        "Zip\n+- Map(same)\n   +- Dataset(num_rows=?, schema=Unknown schema)",
    ),
    "join": (
        lambda ds: ds.map(same).join(ds, "inner", 1, on=("id",)),
        "Join\n+- Map(same)\n   +- Dataset(num_rows=?, schema=Unknown schema)",
    ),
}


@pytest.mark.parametrize("plan", CHAINS)
@pytest.mark.contract("F10.20")
def test_an_unread_dataset_shows_its_operators(rd: Any, plan: str) -> None:
    make, expected = CHAINS[plan]
    dataset = make(rd.range(5))
    assert repr(dataset) == str(dataset) == expected
    assert repr(dataset.iterator()) == f"DataIterator({expected})"


@pytest.mark.contract("F10.20")
def test_what_is_known_is_shown(rd: Any, tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("a\n1\n")
    unread = "Dataset(num_rows=?, schema=Unknown schema)"
    dataset = rd.read_csv(str(tmp_path / "x.csv"))
    assert repr(dataset) == unread
    assert repr(dataset.map(same)) == f"Map(same)\n+- {unread}"
    dataset.schema()
    assert repr(dataset).startswith("shape: (?, 1)\n╭")
    mapped = rd.range(5).map(same)
    mapped.set_name("mine")
    assert repr(mapped).endswith("+- Dataset(name=mine, num_rows=5, schema={id: int64})")
    assert repr(rd.from_items([])) == "MaterializedDataset(num_rows=0, schema=Unknown schema)"
    assert repr(rd.range(5).limit(2)).startswith("shape: (2, 1)\n")
    assert repr(rd.range(5).filter(expr=rd.expressions.col("id") > 1)).startswith("shape: (?, 1)")
    assert repr(rd.range(4).groupby("id")).startswith("GroupedData(dataset=shape: (4, 1)\n")
    assert repr(rd.range(4).groupby("id")).endswith(", key='id')")


@pytest.mark.contract("F10.20")
def test_tables_of_tensors_and_long_values(rd: Any) -> None:
    shown = repr(rd.from_numpy(np.zeros((3, 2, 2)))).splitlines()
    assert shown[4] == "│ ArrowTensorTypeV2(shape=(2, 2), dtype=d… │"
    assert shown[6:9] == ["│ [[0. 0.]  [0. 0.]]                       │"] * 3
    uneven = rd.from_items(
        [{"a": np.zeros((1, 2))}, {"a": np.zeros((2, 2))}], override_num_blocks=1
    )
    assert "│ [[0. 0.]]                                │" in repr(uneven)
    shown = repr(rd.from_items([{"t": "x" * 100, "n": "a\nb"}]))
    assert "│ " + "x" * 39 + "… ┆ a b    │" in shown


@pytest.mark.contract("F10.02", "F10.20")
def test_text_from_pandas_is_a_string(rd: Any) -> None:
    frame = pd.DataFrame({"s": ["x", None], "c": pd.Categorical(["u", "v"]), "i": [1, 2]})
    dataset = rd.from_pandas(frame)
    assert [str(t) for t in dataset.schema().types] == [
        "string",
        "dictionary<values=string, indices=int8, ordered=0>",
        "int64",
    ]
    mapped = dataset.map_batches(same, batch_format="pandas")
    assert str(mapped.schema().types[0]) == "string"
    assert dataset.to_pandas()["c"].tolist() == ["u", "v"]
    assert [row["s"] for row in dataset.take_all()] == ["x", None]


ERRORS: dict[str, tuple[type[Exception], Callable[[Any, Path], Any]]] = {
    "filter with both": (ValueError, lambda rd, _: rd.range(2).filter(same, expr="id > 1")),
    "filter with neither": (ValueError, lambda rd, _: rd.range(2).filter()),
    "filter by a number": (ValueError, lambda rd, _: rd.range(2).filter(5)),
    "filter by no expression": (TypeError, lambda rd, _: rd.range(2).filter(expr=5)),
    "a sample of nothing": (ValueError, lambda rd, _: rd.from_items([]).random_sample(0.5)),
    "a sample of too much": (ValueError, lambda rd, _: rd.range(2).random_sample(2)),
    "sorted by a number": (ValueError, lambda rd, _: rd.range(2).sort(5)),
    "sorted by numbers": (ValueError, lambda rd, _: rd.range(2).sort([5])),
    "grouped by a number": (ValueError, lambda rd, _: rd.range(2).groupby(5)),
    "numbers as names of rows": (ValueError, lambda rd, _: rd.from_items([{1: 2}])),
    "numbers as names of frames": (ValueError, lambda rd, _: rd.from_pandas(pd.DataFrame([[1]]))),
    "numbers as names of batches": (
        ValueError,
        lambda rd, _: rd.range(2).map_batches(lambda b: {1: b["id"]}).take_all(),
    ),
    "numbers as names of new rows": (
        ValueError,
        lambda rd, _: rd.range(2).map(lambda row: {1: 2}).take_all(),
    ),
    "a number as frame": (TypeError, lambda rd, _: rd.from_pandas(5)),
    "a number as array": (TypeError, lambda rd, _: rd.from_numpy(5)),
    "a number as table": (TypeError, lambda rd, _: rd.from_arrow(5)),
    "a number as path": (ValueError, lambda rd, _: rd.read_csv(5)),
    "a range of text": (ValueError, lambda rd, _: rd.range("a")),
    "renamed by text": (TypeError, lambda rd, _: rd.range(2).rename_columns("id")),
    "renamed to too many": (
        ValueError,
        lambda rd, _: rd.range(2).rename_columns(["a", "b"]).take_all(),
    ),
    "dropping what is not there": (
        KeyError,
        lambda rd, _: rd.range(2).drop_columns(["x"]).take_all(),
    ),
    "a column of a number": (ValueError, lambda rd, _: rd.range(2).add_column("x", 5)),
    "arrays of no column": (ValueError, lambda rd, p: rd.range(2).write_numpy(str(p), column="x")),
    "references to no column": (
        ValueError,
        lambda rd, _: __import__("ray").get(rd.range(2).to_numpy_refs(column="x")),
    ),
}


@pytest.mark.parametrize("case", ERRORS)
@pytest.mark.contract("F10.02", "F10.06", "F10.08", "F10.11", "F10.12")
def test_wrong_arguments_raise_errors_of_rays_classes(rd: Any, case: str, tmp_path: Path) -> None:
    kind, call = ERRORS[case]
    with pytest.raises(kind):
        call(rd, tmp_path)


@pytest.mark.contract("F10.08", "F10.12", "F10.19")
def test_odd_arguments_that_work(rd: Any) -> None:
    assert rd.from_items([]).sum() is None
    assert rd.range(2.0).count() == 2
    assert list(rd.range(1).add_column(5, lambda frame: frame["id"]).schema().names) == ["id", "5"]
    frames = rd.range(1).map_batches(lambda batch: pd.DataFrame([[1, 2]]))
    assert frames.take_all() == [{"0": 1, "1": 2}]
    for prefetched in (-1, 0, 1):  # batches made ahead
        batches = rd.range(4).iter_batches(prefetch_batches=prefetched)
        assert [b["id"].tolist() for b in batches] == [[0, 1, 2, 3]]
