"""Text of Parquet files, read by the files' dictionaries: the same values and types as without them."""

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest
from heliostat.data import block, tensors
from heliostat.data.expressions import col
from heliostat.data.sources import parquet_texts
from heliostat.data.sources.parquet_files import Parquet

ROWS = 20_000
FEW = [f"name-{i % 100}" for i in range(ROWS)]
COLUMNS = {
    "few": FEW,
    "with nulls": [None if i % 3 == 0 else value for i, value in enumerate(FEW)],
    "only nulls": [None] * ROWS,
    "empty": [""] * ROWS,
    "different": [f"text number {i}" for i in range(ROWS)],
    "few, then different": [*FEW[: ROWS // 2], *(str(i) * 20 for i in range(ROWS // 2))],
    "not of ASCII": ["ä" if i % 2 else "日本" for i in range(ROWS)],
}


def table(kind):
    made = {name: pa.array(values, kind) for name, values in COLUMNS.items()}
    return pa.table({**made, "n": range(ROWS), "parts": [{"few": value} for value in FEW]})


def read(path, **options):
    return pa.concat_tables(Parquet(**options).read(pafs.LocalFileSystem(), str(path)))


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.binary()], ids=str)
@pytest.mark.parametrize("rows", [ROWS, 12_000, 500])
def test_columns_are_those_of_pyarrow(tmp_path, kind, rows):
    # 12,000: a large row group and one that is too small to be opened twice.
    path = tmp_path / "texts.parquet"
    pq.write_table(table(kind), path, row_group_size=rows, dictionary_pagesize_limit=100_000)
    found = read(path)
    found.validate(full=True)
    assert found.schema.equals(pq.read_schema(path), check_metadata=True)
    assert found.equals(pq.read_table(path))


def test_fields_keep_their_metadata(tmp_path):
    field = pa.field("few", pa.string(), nullable=False, metadata={"unit": "name"})
    written = pa.table({"few": FEW}).cast(pa.schema([field]))
    pq.write_table(written, tmp_path / "texts.parquet")
    found = read(tmp_path / "texts.parquet").schema.field("few")
    assert found.type == pa.string()
    assert not found.nullable
    assert found.metadata[b"unit"] == b"name"


def test_text_too_long_for_one_piece_is_read_as_it_is(tmp_path, monkeypatch):
    pq.write_table(table(pa.string()), tmp_path / "texts.parquet")
    monkeypatch.setattr(parquet_texts, "STRING_BYTES_MAX", 1000)
    assert read(tmp_path / "texts.parquet").equals(pq.read_table(tmp_path / "texts.parquet"))


def test_rows_left_by_conditions_have_their_text(rd, tmp_path):
    pq.write_table(table(pa.string()), tmp_path / "texts.parquet")
    ds = rd.read_parquet(str(tmp_path), columns=["few", "with nulls", "n"])
    some = ds.filter(expr=col("n") >= ROWS - 5)
    assert some.schema().types == [pa.string(), pa.string(), pa.int64()]
    expected = [
        {"few": FEW[i], "with nulls": COLUMNS["with nulls"][i], "n": i}
        for i in range(ROWS - 5, ROWS)
    ]
    assert some.take_all() == expected
    named = ds.filter(expr=col("few") == "name-7")
    assert [row["n"] for row in named.take_all()] == list(range(7, ROWS, 100))


def test_functions_of_rows_get_text(rd, tmp_path):
    pq.write_table(table(pa.string()), tmp_path / "texts.parquet")
    names = [*COLUMNS, "n"]
    ds = rd.read_parquet(str(tmp_path), columns=names)
    same = ds.map(lambda row: dict(row))
    assert same.take_all() == ds.take_all()
    assert ds.flat_map(lambda row: [row]).take_all() == ds.take_all()
    kept = ds.filter(lambda row: row["with nulls"] == "name-7")
    assert kept.schema().types == ds.schema().types
    assert kept.count() == sum(value == "name-7" for value in COLUMNS["with nulls"])


def test_functions_of_rows_get_the_text_of_files_that_differ(rd, tmp_path):
    pq.write_table(pa.table({"few": FEW}), tmp_path / "0.parquet")
    pq.write_table(pa.table({"few": pa.array(FEW, pa.large_string())}), tmp_path / "1.parquet")
    made = rd.read_parquet(str(tmp_path)).map(lambda row: {"n": len(row["few"])})
    assert made.sum("n") == 2 * sum(map(len, FEW))


def test_functions_of_rows_get_the_values_of_folders(rd, tmp_path):
    for name in ("a", "b"):
        (tmp_path / f"part={name}").mkdir()
        pq.write_table(pa.table({"few": FEW}), tmp_path / f"part={name}" / "0.parquet")
    made = rd.read_parquet(str(tmp_path)).map(lambda row: {"both": row["part"] + row["few"]})
    assert [row["both"] for row in made.take_all()] == [a + few for a in "ab" for few in FEW]


DICTIONARIES = {
    "nulls": pa.array(["a", None, "b", "a"]).dictionary_encode(),
    "a null in the dictionary": pa.DictionaryArray.from_arrays([0, 1, None], ["a", None]),
    "more texts than rows": pa.DictionaryArray.from_arrays([2, 0], ["a", "b", "c"]),
    "few numbers": pa.DictionaryArray.from_arrays(
        pa.array([0, None, 126] * 100, pa.int8()), [str(i) for i in range(127)]
    ),
    "unsigned numbers": pa.DictionaryArray.from_arrays(
        pa.array([0, None, 1], pa.uint8()), pa.array(["a", "b"], pa.large_string())
    ),
    "numbers": pa.array([1.5, None, 1.5]).dictionary_encode(),
    "nothing": pa.array([], pa.string()).dictionary_encode(),
}


@pytest.mark.parametrize("name", DICTIONARIES)
def test_lists_of_dictionaries_are_those_of_pyarrow(name):
    array = DICTIONARIES[name]
    twice = pa.chunked_array([array, array.slice(1), array[:0]], array.type)
    for column in (array, twice, twice[1:]):
        assert tensors.to_list(column) == column.to_pylist()
    for rows in (1, 2, 5000):
        found = list(tensors.lists(twice, rows))
        assert [value for some in found for value in some] == twice.to_pylist()
        assert all(len(some) == rows for some in found[:-1])


def test_rows_of_blocks_with_dictionaries():
    different = pa.chunked_array(
        [pa.array(["a", "b"]).dictionary_encode(), pa.array(["c", "a"]).dictionary_encode()]
    )
    made = pa.table({"text": different, "n": [0, 1, 2, 3]})
    assert list(block.rows(made)) == made.to_pylist()
