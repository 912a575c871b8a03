"""Rows of Parquet files that meet conditions: the same whether Polars reads them or pyarrow."""

from __future__ import annotations

import datetime
import math
import random
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest
from heliostat.data.expressions import col, lit
from heliostat.data.sources import parquet_polars
from heliostat.data.sources.parquet_files import Parquet, Piece

ROWS = 300
NAN, INF = math.nan, math.inf
DAY, TIME = datetime.date(2024, 2, 29), datetime.datetime(2024, 2, 29, 12, 30, 1, 5)

VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "i": (pa.int64(), [1, 5, -3, 2**62, None]),
    "small": (pa.int8(), [1, -128, 127, None]),
    "u": (pa.uint64(), [1, 2**64 - 1, None]),
    "f": (pa.float64(), [5.0, 0.1, NAN, -0.0, 0.0, INF, -INF, None]),
    "g": (pa.float32(), [0.1, 5.0, NAN, INF, None]),
    "all nan": (pa.float64(), [NAN]),
    "five": (pa.float64(), [5.0, NAN]),  # statistics say that all are 5
    "s": (pa.string(), ["a", "B", "é", "", "日本", None]),
    "large": (pa.large_string(), ["a", "b", None]),
    "b": (pa.bool_(), [True, False, None]),
    "d": (pa.date32(), [DAY, datetime.date(1960, 1, 1), None]),
    "t": (pa.timestamp("us"), [TIME, None]),
    "zone": (pa.timestamp("ns", "UTC"), [TIME, None]),
    "nulls": (pa.int64(), [None]),
    "few": (pa.dictionary(pa.int32(), pa.string()), ["x", "y", None]),
    "list": (pa.list_(pa.int64()), [[1, 2], [], None]),
    "struct": (pa.struct([("i", pa.int64())]), [{"i": 1}, {"i": None}, None]),
    "bytes": (pa.binary(), [b"\xff", b"", None]),
    "half": (pa.float16(), [1.0, None]),
    "exact": (pa.decimal128(9, 2), [1, None]),
    "^i.*$": (pa.int64(), [1, 2]),  # a pattern of names to Polars
    "*": (pa.int64(), [1, 2]),
}
TAKEN = ["i", "small", "f", "g", "five", "s", "large", "b", "d", "t", "zone", "nulls"]
LITERALS = [1, 5, -3, 2**62, 0.1, 5.0, INF, "a", "é", True, DAY, TIME, 127, 300, 2**30]


def condition(rng: random.Random, names: list[str], depth: int = 0) -> Any:
    choice = rng.randrange(8 if depth < 2 else 6)
    name = rng.choice(names)
    column, value = col(name), rng.choice(rng.choice([LITERALS, VALUES[name][1]]))
    if choice < 3:
        signs = [
            lambda a, b: a < b,
            lambda a, b: a <= b,
            lambda a, b: a > b,
            lambda a, b: a >= b,
            lambda a, b: a == b,
            lambda a, b: a != b,
        ]
        return rng.choice(signs)(column, lit(1 if value == 2**64 - 1 else value))
    if choice == 3:
        return column.is_null() if rng.random() < 0.5 else column.is_not_null()
    if choice == 4:
        values = [v for v in VALUES[name][1] if v != 2**64 - 1]  # no constant has it
        return column.is_in(rng.sample(values, rng.randint(1, len(values))))
    if choice == 5:
        return rng.choice([column, ~column, column.is_null(), column > column])
    left, right = condition(rng, names, depth + 1), condition(rng, names, depth + 1)
    return left & right if choice == 6 else left | right


def read(path: Any, piece: dict[str, Any], **options: Any) -> Any:
    """The rows that are read, or the class of the error."""
    try:
        tables = list(
            Parquet(**options).read(pafs.LocalFileSystem(), Piece(str(path), **piece)),
        )
    except (pa.ArrowException, TypeError, ValueError, NotImplementedError) as error:
        return type(error)
    found = pa.concat_tables(tables)
    found.validate(full=True)
    return found


def same(a: Any, b: Any) -> bool:
    if isinstance(a, type) or isinstance(b, type):
        return bool(a is b)
    same_schema = a.schema.equals(b.schema, check_metadata=True)
    return same_schema and repr(a.to_pylist()) == repr(b.to_pylist())  # NaN is not NaN


@pytest.fixture
def counted(monkeypatch: Any) -> list[bool]:
    """Whether Polars read a row group, for each that was asked for. It is asked at once."""
    pytest.importorskip("polars")
    monkeypatch.setattr(parquet_polars, "BYTES_BEFORE_IMPORT", -1)
    monkeypatch.setattr(parquet_polars, "ROWS_MIN", 0)
    monkeypatch.setattr(parquet_polars, "OTHERS_MIN", 0)
    made: list[bool] = []
    met = parquet_polars.met

    def noted(*args: Any) -> Any:
        found = met(*args)
        made.append(found is not None)
        return found

    monkeypatch.setattr(parquet_polars, "met", noted)
    return made


@pytest.mark.parametrize("seed", range(8))
def test_rows_are_those_of_pyarrow(
    tmp_path: Any, monkeypatch: Any, counted: list[bool], seed: int
) -> None:
    rng = random.Random(seed)
    for number in range(40):
        # Mostly columns that both libraries read alike.
        names = rng.sample(rng.choice([TAKEN, TAKEN, list(VALUES)]), rng.randint(1, 6))
        rows = rng.choice([0, 1, ROWS, ROWS])
        columns = {
            n: pa.array([rng.choice(VALUES[n][1]) for _ in range(rows)], VALUES[n][0])
            for n in names
        }
        path = tmp_path / f"{number}.parquet"
        written = pa.table(columns).replace_schema_metadata({"author": "us"})
        size = rng.choice([40, 150, ROWS])
        pq.write_table(written, path, row_group_size=size, data_page_size=64)
        groups = pq.read_metadata(path).num_row_groups
        some = tuple(g for g in range(groups) if rng.random() < 0.7)
        piece: dict[str, Any] = {"row_groups": some} if rng.random() < 0.5 else {}
        conditions = tuple(condition(rng, names) for _ in range(rng.randint(1, 2)))
        needed = frozenset(rng.sample(names, rng.randint(1, len(names))))
        options = {"conditions": conditions, "needed": needed}
        found = read(path, piece, **options)
        with monkeypatch.context() as patch:
            patch.setattr(parquet_polars, "met", lambda *_: None)
            expected = read(path, piece, **options)
        assert same(found, expected), (conditions, needed, found, expected)
    assert counted


def test_plain_columns_are_read_by_polars(tmp_path: Any, counted: list[bool]) -> None:
    rng = random.Random(1)
    columns = {
        n: pa.array([rng.choice(VALUES[n][1]) for _ in range(ROWS)], VALUES[n][0]) for n in TAKEN
    }
    pq.write_table(pa.table(columns), tmp_path / "x.parquet", row_group_size=100)
    asked = (col("i") > 0) & ((col("f") >= 0.1) | col("s").is_in(["a", "é"])) & (col("d") == DAY)
    found = read(tmp_path / "x.parquet", {}, conditions=(asked,))
    assert counted == [True] * 3
    assert 0 < found.num_rows < ROWS


def test_not_a_number_meets_no_comparison(tmp_path: Any, counted: list[bool]) -> None:
    values = [NAN, 5.0, 7.0, None] * 50
    pq.write_table(pa.table({"f": values, "n": range(200)}), tmp_path / "x.parquet")
    found = read(tmp_path / "x.parquet", {}, conditions=(col("f") > 5.0,))
    assert set(found.column("f").to_pylist()) == {7.0}
    # By the file's statistics all are 5, and NaN is not.
    pq.write_table(pa.table({"f": [5.0, NAN] * 100, "n": range(200)}), tmp_path / "y.parquet")
    found = read(tmp_path / "y.parquet", {}, conditions=(col("f") != 5.0,))
    assert found.num_rows == 100
    assert counted == [True, True]


def test_a_file_that_polars_refuses_is_read_all_the_same(
    tmp_path: Any, counted: list[bool]
) -> None:
    written = pa.table({"i": range(ROWS), "s": ["a"] * ROWS})
    pq.write_table(written, tmp_path / "x.parquet", use_dictionary=False, compression=None)
    text = (tmp_path / "x.parquet").read_bytes()
    broken = text.replace(b"\x01\x00\x00\x00a" * 10, b"\x01\x00\x00\x00\xff" * 10, 1)
    assert broken != text
    (tmp_path / "x.parquet").write_bytes(broken)  # its text is not UTF-8
    found = list(
        Parquet(conditions=(col("i") < 200,)).read(
            pafs.LocalFileSystem(), str(tmp_path / "x.parquet")
        )
    )
    assert sum(table.num_rows for table in found) == 200
    assert counted == [False]


def test_datasets_with_and_without_polars(rd: Any, tmp_path: Any) -> None:
    """Whatever reads the rows in the workers, and however much they have read before."""
    rows = 120_000
    table = pa.table({"n": range(rows), "f": [float(i % 7) for i in range(rows)]})
    pq.write_table(table, tmp_path / "x.parquet", row_group_size=60_000)
    ds = rd.read_parquet(str(tmp_path)).filter(expr=(col("f") == 3.0) & (col("n") > 100))
    expected = [n for n in range(101, rows) if n % 7 == 3]
    assert [row["n"] for row in ds.take_all()] == expected
    assert ds.count() == len(expected)
