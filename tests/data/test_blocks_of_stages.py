"""What maps put into blocks: arrays in one piece, whatever the size of the batches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

CLUSTER = {"num_cpus": 4}


def shaper(target: int | None = None) -> Any:
    from heliostat.data.execute.block_builder import BlockBuilder

    return BlockBuilder(target)


def table(start: int, rows: int, **columns: Any) -> Any:
    from heliostat.data import block

    ids = np.arange(start, start + rows)
    image = np.repeat(ids, 6).reshape(rows, 2, 3).astype(np.float32)
    return block.from_batch({"id": ids, "image": image, **columns})


@pytest.mark.contract("F10.07")
def test_small_tables_become_one_with_columns_in_one_piece() -> None:
    from heliostat.data import block

    made = shaper()
    for _ in range(2):  # the second time with a guess of how many rows come
        tables = [table(at, 500, name=[f"n{i}" for i in range(500)]) for at in range(0, 5000, 500)]
        (one,) = made.blocks(iter(tables))
        assert one.schema == tables[0].schema
        assert one.column("image").num_chunks == one.column("id").num_chunks == 1
        arrays = block.to_numpy(one)
        assert arrays["id"].tolist() == list(range(5000))
        assert (arrays["image"] == arrays["id"][:, None, None]).all()
        assert arrays["name"][501] == "n1"


@pytest.mark.contract("F10.07", "F10.29")
def test_blocks_are_cut_at_the_wanted_size() -> None:
    tables = [table(at, 100) for at in range(0, 2000, 100)]
    blocks = list(shaper(target=10 * tables[0].nbytes).blocks(iter(tables)))
    assert [b.num_rows for b in blocks] == [800, 800, 400]
    (large,) = [table(0, 4000)]
    assert [b.num_rows for b in shaper(large.nbytes // 4).blocks(iter([large]))] == [1000] * 4


@pytest.mark.contract("F10.07")
def test_tables_that_differ_and_nulls_keep_their_order() -> None:
    import pyarrow as pa

    tables = [
        pa.table({"a": [1, 2]}),
        pa.table({"a": [3, None]}),
        pa.table({"a": [5]}),
        pa.table({"a": [6.5], "b": ["x"]}),
        pa.table({"a": [7.5], "b": ["y"]}),
    ]
    (one,) = shaper().blocks(iter(tables))
    assert one.column("a").to_pylist() == [1, 2, 3, None, 5, 6.5, 7.5]
    assert one.column("b").to_pylist() == [None] * 5 + ["x", "y"]
    (empty,) = shaper().blocks(iter([tables[0].slice(0, 0)]))
    assert empty.num_rows == 0
    assert empty.column_names == ["a"]


@pytest.mark.contract("F10.07")
def test_automatic_batches_hold_a_number_of_bytes(rd: Any) -> None:
    def count(batch: Any) -> Any:
        return {"n": [len(batch["data"])]}

    wide = rd.from_numpy([np.zeros((30, 1 << 20), np.uint8)])
    counts = [row["n"] for row in wide.map_batches(count, batch_size="auto").take_all()]
    assert counts == [16, 14]
    whole = [row["n"] for row in wide.map_batches(count, batch_size=None).take_all()]
    assert whole == [30]
    with pytest.raises(ValueError, match="Batch size"):
        wide.map_batches(count, batch_size=0)
