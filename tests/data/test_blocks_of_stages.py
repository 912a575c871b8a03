"""What maps put into blocks: arrays in one piece, whatever the size of the batches."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pyarrow as pa
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


@pytest.mark.contract("F10.07", "F10.29")
def test_large_tables_are_not_copied_and_batches_are_cut_across_them() -> None:
    from heliostat.data.execute.block_builder import APART_BYTES
    from heliostat.data.iterate import batching

    rows = APART_BYTES // table(0, 1).nbytes + 1
    sizes = [100, 50, rows, rows, 30, 20, rows]
    starts = [sum(sizes[:i]) for i in range(len(sizes))]
    given = [table(*one) for one in zip(starts, sizes, strict=True)]
    (one,) = shaper().blocks(iter(given))
    column = one.column_names[0]
    assert [len(chunk) for chunk in one.column(column).chunks] == [150, rows, rows, 50, rows]
    assert one.column(column).chunk(1).buffers()[1].address == (
        given[2].column(column).chunk(0).buffers()[1].address
    )
    assert one.equals(pa.concat_tables(given))
    large = pa.concat_tables([given[2], given[3]])
    in_one_piece = (piece for block in (large, given[0]) for piece in batching.pieces(block))
    cut = [batch for batch, _ in batching.arrays(in_one_piece, 1000, False)]
    assert {len(batch[column]) for batch in cut[:-1]} == {1000}
    whole = pa.concat_tables([large, given[0]]).column(column).to_numpy()
    assert np.array_equal(np.concatenate([batch[column] for batch in cut]), whole)
    assert np.shares_memory(cut[0][column], given[2].column(column).chunk(0).to_numpy())


@pytest.mark.contract("F10.03")
def test_the_first_rows_of_unequal_row_groups_are_shared_out_evenly() -> None:
    from heliostat.data.sources.parquet import _shared_out
    from heliostat.data.sources.parquet_files import Piece

    pieces = [Piece("a", (0,), 1_048_576), Piece("a", (1,), 151_424)]
    cut = list(_shared_out(pieces, 2))
    assert [(one.row_groups, one.start, one.rows) for one in cut] == [
        *(((0,), 0, 524_288), ((0,), 524_288, 524_288), ((1,), 0, 151_424))
    ]


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


def stored_bytes(table: Any) -> int:
    buffers: list[Any] = []
    return len(pickle.dumps(table, protocol=5, buffer_callback=buffers.append)) + sum(
        len(one.raw()) for one in buffers
    )


@pytest.mark.contract("F10.07")
def test_a_block_of_pieces_of_one_buffer_is_stored_once() -> None:
    from heliostat.data import block

    rows = 200_000
    names = [None if i % 7 == 0 else str(i) for i in range(rows)]
    whole = pa.table({"key": range(rows), "name": names, "tens": [[i] for i in range(rows)]})
    step = 10_000
    pieces = pa.concat_tables([whole.slice(at, step) for at in range(0, rows, step)])
    groups = whole.group_by("key").aggregate([("name", "count")])
    assert groups.column("key").num_chunks > 1
    for given in (pieces, groups, whole.slice(5, 20), pieces.slice(1000, 20_000)):
        assert stored_bytes(given) > 2 * given.nbytes
        made = block.compact(given)
        assert stored_bytes(made) <= 1.2 * given.nbytes + 10_000
        assert made.equals(given)
        made.validate(full=True)
