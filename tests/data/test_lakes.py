"""Tables of Delta Lake, Iceberg and Lance, read and written beside the packages of their makers.

The packages are not among those that tests install, for their size.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from tests.helpers import hudi_tables

ROWS = [{"id": i, "kind": "a/b c" if i % 2 else None} for i in range(10)]


def rows_of(dataset: Any) -> list[dict[str, Any]]:
    return sorted(dataset.take_all(), key=lambda row: row["id"])


@pytest.fixture
def dataset(rd: Any) -> Any:
    return rd.from_items(ROWS, override_num_blocks=3)


class Failing:
    """Fails on the row of a number, on its first attempt or always."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        if row["id"] == self.number:
            raise ValueError("this row fails")
        return row


# --- Delta Lake ------------------------------------------------------------------------------------


@pytest.fixture
def deltalake() -> Any:
    return pytest.importorskip("deltalake", reason="needs deltalake")


@pytest.mark.contract("F10.04", "F10.25")
def test_delta_there_and_back(rd: Any, dataset: Any, tmp_path: Path, deltalake: Any) -> None:
    path = str(tmp_path / "table")
    dataset.write_delta(path, partition_by=["kind"], name="numbers")
    table = deltalake.DeltaTable(path)
    assert (table.version(), table.metadata().name) == (0, "numbers")
    assert sorted(table.to_pyarrow_table()["id"].to_pylist()) == list(range(10))
    assert rows_of(rd.read_delta(path)) == ROWS
    assert rd.read_delta(path).count() == 10
    assert rd.read_delta(path, columns=["id"]).schema().names == ["id"]
    (row,) = rd.read_delta(path, include_paths=True).take(1)
    assert row["path"].endswith(".parquet")


@pytest.mark.contract("F10.04", "F10.25")
def test_delta_versions_and_new_columns(
    rd: Any, dataset: Any, tmp_path: Path, deltalake: Any
) -> None:
    path = str(tmp_path / "table")
    dataset.write_delta(path)
    dataset.map(lambda row: {**row, "more": row["id"]}).write_delta(path)
    assert rd.read_delta(path).sum("more") == 45
    assert rows_of(rd.read_delta(path, 0)) == ROWS
    with pytest.raises(ValueError, match="schema_mode"):
        dataset.map(lambda row: {**row, "last": 1}).write_delta(path, schema_mode="error")
    assert rd.read_delta(path).count() == 20
    deltalake.DeltaTable(path).delete("id < 5")
    assert rd.read_delta(path).count() == 10
    dataset.limit(2).write_delta(path, mode="overwrite")
    assert [row["id"] for row in rows_of(rd.read_delta(path))] == [0, 1]


@pytest.mark.contract("F10.04", "F10.25")
def test_delta_refusals(rd: Any, dataset: Any, tmp_path: Path, deltalake: Any) -> None:
    path = str(tmp_path / "table")
    dataset.write_delta(path, partition_by=["kind"])
    with pytest.raises(ValueError, match="already"):
        dataset.write_delta(path, mode="error")
    dataset.write_delta(path, mode="ignore")
    with pytest.raises(ValueError, match="partitioned"):
        dataset.write_delta(path, partition_by=["id"])
    with pytest.raises(ValueError, match="did you mean 'kind'"):
        rd.read_delta(path, columns=["kinds"])
    with pytest.raises(deltalake.exceptions.TableNotFoundError):
        rd.read_delta(str(tmp_path / "nowhere"))
    with pytest.raises(ValueError, match="no type for column 'v'"):
        rd.range_tensor(3).rename_columns({"data": "v"}).write_delta(str(tmp_path / "tensors"))
    assert rd.read_delta(path).count() == 10


@pytest.mark.contract("F10.25")
def test_a_delta_write_that_fails_commits_nothing(
    rd: Any, dataset: Any, tmp_path: Path, deltalake: Any
) -> None:
    path = str(tmp_path / "table")
    dataset.write_delta(path)
    with pytest.raises(ValueError, match="this row fails"):
        dataset.map(Failing(7)).write_delta(path)
    assert deltalake.DeltaTable(path).version() == 0
    assert rows_of(rd.read_delta(path)) == ROWS


@pytest.mark.contract("F10.04")
def test_a_delta_table_of_another_program(rd: Any, tmp_path: Path, deltalake: Any) -> None:
    path = str(tmp_path / "table")
    table = pa.table({"id": [1, 2], "day": pa.array(pd.to_datetime(["2020-01-01", None]))})
    deltalake.write_deltalake(
        path, table.cast(pa.schema({"id": pa.int64(), "day": pa.timestamp("us")}))
    )
    assert rd.read_delta(path).to_pandas()["day"].isna().tolist() == [False, True]
    deltalake.DeltaTable(path).delete()
    empty = rd.read_delta(path)
    assert (empty.count(), empty.schema().names) == (0, ["id", "day"])


# --- Lance -----------------------------------------------------------------------------------------


@pytest.fixture
def lance() -> Any:
    return pytest.importorskip("lance", reason="needs pylance")


@pytest.mark.contract("F10.04", "F10.25")
def test_lance_there_and_back(rd: Any, dataset: Any, tmp_path: Path, lance: Any) -> None:
    path = str(tmp_path / "data.lance")
    dataset.write_lance(path, min_rows_per_file=3)
    assert len(lance.dataset(path).get_fragments()) > 1
    assert rows_of(rd.read_lance(path)) == ROWS
    found = rd.read_lance(path, filter="id > 7", columns=["id"])
    assert rows_of(found) == [{"id": 8}, {"id": 9}]
    dataset.write_lance(path, mode="append")
    assert rd.read_lance(path).count() == 20
    assert rows_of(rd.read_lance(path, version=1)) == ROWS
    lance.dataset(path).delete("id < 5")
    assert rd.read_lance(path).count() == 10
    dataset.limit(2).write_lance(path, mode="overwrite")
    assert [row["id"] for row in rows_of(rd.read_lance(path))] == [0, 1]
    nothing = rd.read_lance(path, filter="id > 100")
    assert (nothing.count(), nothing.schema().names) == (0, ["id", "kind"])


@pytest.mark.contract("F10.04", "F10.25")
def test_lance_refusals(rd: Any, dataset: Any, tmp_path: Path, lance: Any) -> None:
    path = str(tmp_path / "data.lance")
    dataset.write_lance(path)
    with pytest.raises(ValueError, match="already"):
        dataset.write_lance(path)
    dataset.write_lance(path, mode="ignore")
    with pytest.raises(ValueError, match="did you mean 'kind'"):
        rd.read_lance(path, columns=["kinds"])
    with pytest.raises(ValueError, match="nowhere"):
        rd.read_lance(str(tmp_path / "nowhere"))
    with pytest.raises(ValueError, match="this row fails"):
        dataset.map(Failing(7)).write_lance(path, mode="append")
    assert rows_of(rd.read_lance(path)) == ROWS


# --- Iceberg ---------------------------------------------------------------------------------------


@pytest.fixture
def catalog(tmp_path: Path) -> dict[str, Any]:
    """Arguments of a catalog in a file, with the tables "db.plain" and "db.parted"."""
    pytest.importorskip("pyiceberg", reason="needs pyiceberg")
    pytest.importorskip("sqlalchemy", reason="needs pyiceberg's extra sql-sqlite")
    from pyiceberg.catalog import load_catalog

    where = {"uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}"}
    arguments = {"name": "default", "type": "sql", **where}
    made = load_catalog(**arguments)
    made.create_namespace("db")
    schema = pa.schema([("id", pa.int64()), ("kind", pa.string())])
    made.create_table("db.plain", schema=schema)
    with made.create_table("db.parted", schema=schema).update_spec() as spec:
        spec.add_identity("kind")
    return arguments


@pytest.mark.contract("F10.04", "F10.25")
@pytest.mark.parametrize("name", ["db.plain", "db.parted"])
def test_iceberg_there_and_back(rd: Any, dataset: Any, catalog: dict[str, Any], name: str) -> None:
    def read(**options: Any) -> Any:
        return rd.read_iceberg(table_identifier=name, catalog_kwargs=catalog, **options)

    empty = read()
    assert (empty.count(), empty.schema().names) == (0, ["id", "kind"])
    dataset.write_iceberg(name, catalog)
    assert rows_of(read()) == ROWS
    assert rows_of(read(row_filter="id > 7", selected_fields=("id",))) == [{"id": 8}, {"id": 9}]
    from pyiceberg.catalog import load_catalog

    first = load_catalog(**catalog).load_table(name).current_snapshot()
    dataset.map(lambda row: {**row, "more": 1.5}).write_iceberg(name, catalog)
    assert (read().count(), read().sum("more")) == (20, 15.0)
    assert rows_of(read(snapshot_id=first.snapshot_id)) == ROWS
    dataset.limit(3).write_iceberg(name, catalog, mode="overwrite")
    assert [row["id"] for row in rows_of(read())] == [0, 1, 2]


@pytest.mark.contract("F10.25")
def test_iceberg_replaces_rows(rd: Any, dataset: Any, catalog: dict[str, Any]) -> None:
    def read(**options: Any) -> Any:
        return rd.read_iceberg(table_identifier="db.plain", catalog_kwargs=catalog, **options)

    dataset.write_iceberg("db.plain", catalog)
    new = rd.from_items([{"id": 3, "kind": "new"}, {"id": 100, "kind": "new"}])
    keys = {"join_cols": ["id"]}
    new.write_iceberg("db.plain", catalog, mode="upsert", upsert_kwargs=keys)
    assert len(rows_of(read())) == 11
    assert rows_of(read(row_filter="kind = 'new'")) == [
        {"id": 3, "kind": "new"},
        {"id": 100, "kind": "new"},
    ]
    one = rd.from_items([{"id": 1, "kind": "x"}])
    one.write_iceberg("db.plain", catalog, mode="overwrite", overwrite_filter="id < 5")
    assert [row["id"] for row in rows_of(read())] == [1, 5, 6, 7, 8, 9, 100]


@pytest.mark.contract("F10.04", "F10.25")
def test_iceberg_refusals(rd: Any, dataset: Any, catalog: dict[str, Any]) -> None:
    from pyiceberg.exceptions import NoSuchTableError

    dataset.write_iceberg("db.plain", catalog)
    twice = dataset.union(dataset)
    refused = [
        ({"mode": "error"}, dataset, "appends, overwrites or upserts"),
        ({"mode": "upsert"}, dataset, "join_cols"),
        ({"mode": "upsert", "upsert_kwargs": {"join_cols": ["id"]}}, twice, "same values"),
        ({}, dataset.map(Failing(7)), "this row fails"),
    ]
    for options, written, says in refused:
        with pytest.raises(ValueError, match=says):
            written.write_iceberg("db.plain", catalog, **options)
    with pytest.raises(NoSuchTableError):
        dataset.write_iceberg("db.nowhere", catalog)
    with pytest.raises(ValueError, match="did you mean 'kind'"):
        rd.read_iceberg(
            table_identifier="db.plain", catalog_kwargs=catalog, selected_fields=("kinds",)
        )
    found = rd.read_iceberg(table_identifier="db.plain", catalog_kwargs=catalog)
    assert rows_of(found) == ROWS


# --- Hudi ------------------------------------------------------------------------------------------

FIRST, SECOND = "20240101000000000", "20240102000000000"


@pytest.fixture
def hudi(tmp_path: Path) -> str:
    pytest.importorskip("hudi", reason="needs hudi")
    hudi_tables.make(
        tmp_path / "table",
        {
            FIRST: {("a", "f1"): [(1, FIRST), (2, FIRST)], ("b", "f2"): [(3, FIRST)]},
            SECOND: {("a", "f1"): [(1, FIRST), (2, SECOND), (4, SECOND)]},
        },
    )
    return str(tmp_path / "table")


def ids(dataset: Any) -> list[int]:
    return sorted(row["id"] for row in dataset.take_all())


@pytest.mark.contract("F10.04")
def test_hudi_as_it_is_as_it_was_and_what_changed(rd: Any, hudi: str) -> None:
    assert ids(rd.read_hudi(hudi)) == [1, 2, 3, 4]
    assert ids(rd.read_hudi(hudi, filters=[("city", "=", "b")])) == [3]
    as_of = {"hoodie.read.as.of.timestamp": FIRST}
    assert ids(rd.read_hudi(hudi, hudi_options=as_of)) == [1, 2, 3]
    for name in ("hoodie.read.start.timestamp", "hoodie.read.file_group.start_timestamp"):
        since = rd.read_hudi(hudi, query_type="incremental", hudi_options={name: FIRST})
        assert ids(since) == [2, 4]
    none = rd.read_hudi(hudi, filters=[("city", "=", "c")])
    assert (none.count(), "id" in none.columns()) == (0, True)


@pytest.mark.contract("F10.04")
def test_hudi_refusals(rd: Any, hudi: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="Unsupported query type"):
        rd.read_hudi(hudi, query_type="all")
    with pytest.raises(Exception, match=r"hoodie\.properties not found"):
        rd.read_hudi(str(tmp_path / "nothing")).take_all()
    with pytest.raises(TypeError, match="did you mean 'filters'"):
        rd.read_hudi(hudi, filter=[])
