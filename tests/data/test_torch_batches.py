"""What ``iter_torch_batches`` makes of columns of every type, and what it refuses."""

from __future__ import annotations

import datetime
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

torch = pytest.importorskip("torch", reason="makes tensors")

CLUSTER = {"num_cpus": 4}

NAN = float("nan")
NOW = datetime.datetime(2024, 1, 2, 3, 4, 5)

# column: (values of three rows, what they are as tensors)
GOOD: dict[str, tuple[list[Any], Any]] = {
    "integers": ([1, 2, 3], torch.tensor([1, 2, 3])),
    "floats": ([1.5, 2.0, 3.0], torch.tensor([1.5, 2.0, 3.0], dtype=torch.float64)),
    "truth": ([True, False, True], torch.tensor([True, False, True])),
    "a missing integer": ([1, None, 3], torch.tensor([1, NAN, 3], dtype=torch.float64)),
    "a missing float": ([1.5, None, 3.0], torch.tensor([1.5, NAN, 3], dtype=torch.float64)),
    "nothing": ([None, None, None], torch.full((3,), NAN)),
    "lists of one": ([[1], [2], [3]], torch.tensor([[1], [2], [3]])),
    "lists of two": (
        [[1.5, 2.0], [3.0, 4.0], [5.0, 6.0]],
        torch.tensor([[1.5, 2], [3, 4], [5, 6]], dtype=torch.float64),
    ),
    "tuples": ([(1, 2), (3, 4), (5, 6)], torch.tensor([[1, 2], [3, 4], [5, 6]])),
    "lists of truth": ([[True], [False], [True]], torch.tensor([[True], [False], [True]])),
    "lists with a gap": (
        [[1, None], [2, 3], [4, 5]],
        torch.tensor([[1, NAN], [2, 3], [4, 5]], dtype=torch.float64),
    ),
    "arrays": (
        [np.full((2, 2), i) for i in range(3)],
        torch.arange(3).reshape(3, 1, 1).expand(3, 2, 2),
    ),
    "arrays without dimensions": ([np.array(i) for i in range(3)], torch.arange(3)),
    "tensors": ([torch.full((2,), 0.5)] * 3, torch.full((3, 2), 0.5)),
    "numpy's numbers": ([np.float32(1.5)] * 3, torch.full((3,), 1.5)),
    "complex": ([1 + 2j] * 3, torch.full((3,), 1 + 2j, dtype=torch.complex128)),
}

# column: (values of three rows, the class of the error)
BAD: dict[str, tuple[list[Any], type[Exception]]] = {
    "text": (["a", "b", "c"], TypeError),
    "bytes": ([b"a", b"bb", b"c"], TypeError),
    "times": ([NOW] * 3, TypeError),
    "dates": ([NOW.date()] * 3, TypeError),
    "durations": ([datetime.timedelta(1)] * 3, TypeError),
    "numbers and text": ([1, "a", 2.5], TypeError),
    "text with a gap": (["a", None, "b"], RuntimeError),
    "truth with a gap": ([True, None, False], RuntimeError),
    "lists of several lengths": ([[1], [2, 3], []], RuntimeError),
    "a missing list": ([[1], None, [3]], RuntimeError),
    "empty lists": ([[], [], []], RuntimeError),
    "lists of lists": ([[[1, 2], [3, 4]]] * 3, RuntimeError),
    "lists of text": ([["a"], ["b"], ["c"]], RuntimeError),
    "arrays of several shapes": ([np.zeros((i + 1, 2)) for i in range(3)], RuntimeError),
    "dicts": ([{"x": 1}] * 3, RuntimeError),
    "decimals": ([Decimal("1.5")] * 3, RuntimeError),
    "large integers": ([2**70] * 3, RuntimeError),
    "classes": ([object] * 3, RuntimeError),
}

Make = Callable[[Any, list[Any], Path], Any]


def _of_parquet(rd: Any, values: list[Any], folder: Path) -> Any:
    rd.from_items([{"c": v} for v in values], override_num_blocks=1).write_parquet(str(folder))
    return rd.read_parquet(str(folder))


MAKERS: dict[str, Make] = {
    "one block": lambda rd, v, _: rd.from_items([{"c": x} for x in v], override_num_blocks=1),
    "a block a row": lambda rd, v, _: rd.from_items([{"c": x} for x in v]),
    "pandas": lambda rd, v, _: rd.from_pandas(pd.DataFrame({"c": pd.Series(v, dtype=object)})),
    "a function's rows": lambda rd, v, _: rd.range(3).map(lambda row: {"c": v[row["id"]]}),
    "parquet": _of_parquet,
}


def is_same(found: Any, expected: Any) -> bool:
    return bool(
        found.dtype == expected.dtype
        and found.shape == expected.shape
        and torch.equal(torch.isnan(found), torch.isnan(expected))
        and torch.equal(torch.nan_to_num(found), torch.nan_to_num(expected))
    )


@pytest.mark.parametrize("column", GOOD)
@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.contract("F10.18")
def test_columns_become_tensors(rd: Any, maker: str, column: str, tmp_path: Path) -> None:
    values, expected = GOOD[column]
    if maker == "parquet" and column == "complex":
        values, expected = [1, 2, 3], torch.tensor([1, 2, 3])  # pickled values are no Parquet type
    dataset = MAKERS[maker](rd, values, tmp_path).materialize()
    whole = next(iter(dataset.iter_torch_batches(batch_size=3)))
    assert is_same(whole["c"], expected)
    whole["c"][0] = 0  # the loop's own memory
    assert is_same(next(iter(dataset.iter_torch_batches(batch_size=3)))["c"], expected)
    shuffled = dataset.iter_torch_batches(batch_size=3, local_shuffle_buffer_size=3)
    assert next(iter(shuffled))["c"].shape == expected.shape
    converted = next(iter(dataset.iter_torch_batches(batch_size=3, dtypes=torch.complex64)))
    assert is_same(converted["c"], expected.to(torch.complex64))
    by_name = next(iter(dataset.iter_torch_batches(batch_size=3, dtypes={"c": torch.complex64})))
    assert is_same(by_name["c"], expected.to(torch.complex64))
    elsewhere = next(iter(dataset.iter_torch_batches(batch_size=3, device="meta")))
    assert elsewhere["c"].device.type == "meta"
    assert elsewhere["c"].shape == expected.shape


@pytest.mark.parametrize("column", ["integers", "lists of one", "lists of two", "tensors"])
@pytest.mark.parametrize("batch_size", [1, 2, None])
@pytest.mark.contract("F10.18")
def test_every_batch_has_the_shape_of_its_rows(
    rd: Any, column: str, batch_size: int | None
) -> None:
    values, expected = GOOD[column]
    dataset = rd.from_items([{"c": v} for v in values], override_num_blocks=2)
    found = [b["c"] for b in dataset.iter_torch_batches(batch_size=batch_size)]
    assert torch.equal(torch.cat(found), expected)
    assert [len(b) for b in found] == {1: [1, 1, 1], 2: [2, 1]}.get(
        batch_size or 0, [len(b) for b in found]
    )


@pytest.mark.parametrize("column", BAD)
@pytest.mark.parametrize("maker", ["one block", "pandas", "a function's rows"])
@pytest.mark.contract("F10.18")
def test_what_no_tensor_can_hold_is_refused(
    rd: Any, maker: str, column: str, tmp_path: Path
) -> None:
    values, kind = BAD[column]
    dataset = MAKERS[maker](rd, values, tmp_path)
    with pytest.raises(kind) as caught:
        list(dataset.iter_torch_batches(batch_size=3))
    assert type(caught.value) is kind
    assert "collate_fn" in str(caught.value)
    # A function of the program's own can make something of them.
    counted = dataset.iter_torch_batches(
        batch_size=3, collate_fn=lambda batch: torch.tensor([len(batch["c"])])
    )
    assert [b.tolist() for b in counted] == [[3]]


@pytest.mark.contract("F10.18", "F10.22")
def test_collate_functions_see_lists_in_their_own_format(rd: Any) -> None:
    from ray.data.collate_fn import (
        ArrowBatchCollateFn,
        DefaultCollateFn,
        NumpyBatchCollateFn,
        PandasBatchCollateFn,
    )

    class OfNumpy(NumpyBatchCollateFn):
        def __call__(self, batch: dict[str, np.ndarray]) -> Any:
            assert batch["c"].dtype == object
            return torch.as_tensor(np.stack(batch["c"]))

    class OfPandas(PandasBatchCollateFn):
        def __call__(self, batch: pd.DataFrame) -> Any:
            return torch.as_tensor([list(v) for v in batch["c"]])

    class OfArrow(ArrowBatchCollateFn):
        def __call__(self, batch: pa.Table) -> Any:
            return torch.as_tensor(batch.column("c").to_pylist())

    values, expected = GOOD["lists of one"]
    dataset = rd.from_items([{"c": v} for v in values])
    for collate in (OfNumpy(), OfPandas(), OfArrow(), lambda batch: OfNumpy()(batch)):
        (found,) = dataset.iter_torch_batches(collate_fn=collate)
        assert torch.equal(found, expected)
    (found,) = dataset.iter_torch_batches(collate_fn=DefaultCollateFn(dtypes=torch.float32))
    assert torch.equal(found["c"], expected.float())


@pytest.mark.contract("F9.01", "F10.18")
def test_a_model_is_trained_on_lists_of_one_number(
    rd: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ray import train
    from ray.train import RunConfig, ScalingConfig
    from ray.train.torch import TorchTrainer

    monkeypatch.setenv("HELIOSTAT_TRAIN_VIEW", "off")

    def loop() -> None:
        model = torch.nn.Linear(1, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        for batch in train.get_dataset_shard("train").iter_torch_batches(
            batch_size=32, dtypes=torch.float
        ):
            assert batch["x"].shape == (len(batch["x"]), 1)
            loss = torch.nn.functional.mse_loss(model(batch["x"]), batch["y"])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        train.report({"loss": loss.item()})

    dataset = rd.from_items([{"x": [x / 200], "y": [2 * x / 200]} for x in range(200)])
    result = TorchTrainer(
        loop,
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(name="run", storage_path=str(tmp_path)),
        datasets={"train": dataset},
    ).fit()
    assert result.error is None


@pytest.mark.heliostat_only("Ray's actors load it themselves")
def test_actors_of_a_class_that_mentions_torch_are_forked_with_it(rd: Any) -> None:
    class Model:
        def __init__(self) -> None:
            self.had = "torch" in sys.modules

        def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
            import torch

            assert torch.zeros(1).item() == 0
            return {"had": [self.had] * len(batch["id"])}

    rows = rd.range(4).map_batches(Model, concurrency=1).take_all()
    assert [row["had"] for row in rows] == [True] * 4
