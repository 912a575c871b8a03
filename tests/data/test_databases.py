"""Tables of databases, read and written through stand-ins for their clients, see tests/clients."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import ray

from tests import clients

CLUSTER = clients.cluster()
pytestmark = pytest.mark.heliostat_only("the stand-ins know what this library asks of the packages")
DSN = "clickhouse+http://user:password@host:8123/default"


def ids(dataset: Any) -> list[int]:
    return sorted(row["id"] for row in dataset.take_all())


# --- MongoDB ---------------------------------------------------------------------------------------

URI = "mongodb://host:27017"


@pytest.fixture
def mongo(service: Any) -> Any:
    documents = [{"_id": i, "id": i, "kind": "ab"[i % 2]} for i in range(100)]
    service.store("mongo-host", {"db": {"numbers": documents, "empty": []}})
    return service


def held(service: Any, collection: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = service.load("mongo-host", {})["db"][collection]
    return found


@pytest.mark.contract("F10.04")
def test_documents_are_read_in_parts_of_about_one_size(rd: Any, mongo: Any) -> None:
    found = rd.read_mongo(URI, "db", "numbers", override_num_blocks=4).materialize()
    assert ids(found) == list(range(100))
    assert [len(ray.get(ref)) for ref in found.get_internal_block_refs()] == [25] * 4
    assert rd.read_mongo(URI, "db", "empty").take_all() == []


@pytest.mark.contract("F10.04")
def test_documents_go_through_a_pipeline(rd: Any, mongo: Any) -> None:
    from pymongoarrow.api import Schema

    odd = [{"$match": {"kind": "b"}}, {"$project": {"id": 1}}]
    found = rd.read_mongo(URI, "db", "numbers", pipeline=odd, override_num_blocks=3)
    assert found.materialize().num_blocks() == 3
    assert (ids(found), found.columns()) == (list(range(1, 100, 2)), ["id"])
    # What looks at several documents at a time sees all of them.
    few = rd.read_mongo(URI, "db", "numbers", pipeline=[{"$limit": 7}], override_num_blocks=3)
    assert ids(few) == list(range(7))
    typed = Schema({"id": pa.float32()})
    found = rd.read_mongo(URI, "db", "numbers", schema=typed, allowDiskUse=True)
    assert found.schema().types == [pa.float32()]


@pytest.mark.contract("F10.04")
def test_a_part_that_loses_its_connection_is_read_again(rd: Any, mongo: Any) -> None:
    mongo.fault("mongo-read", times=2, after=1)  # the first request asks for the parts
    assert ids(rd.read_mongo(URI, "db", "numbers", override_num_blocks=4)) == list(range(100))
    assert mongo.count("mongo-aggregate") == 1 + 4 + 2


@pytest.mark.contract("F10.04", "F10.25")
@pytest.mark.parametrize(
    ("place", "said"),
    [
        (("no", "numbers"), "database no doesn't exist"),
        (("db", "no"), "collection no doesn't exist"),
    ],
)
def test_a_collection_that_is_not_there(rd: Any, mongo: Any, place: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        rd.read_mongo(URI, *place).take_all()
    with pytest.raises(ValueError, match=said):
        rd.range(3).write_mongo(URI, *place)


@pytest.mark.contract("F10.25")
def test_rows_become_documents_with_ids(rd: Any, mongo: Any) -> None:
    rows = [{"id": i, "v": np.array([i, 2.5]), "t": None} for i in range(10)]
    rd.from_items(rows, override_num_blocks=3).write_mongo(URI, "db", "empty")
    written = held(mongo, "empty")
    assert sorted(one["id"] for one in written) == list(range(10))
    assert len({one["_id"] for one in written}) == 10
    assert {type(one["v"]) for one in written} == {list}
    rd.from_items([{"_id": 7, "id": 1}]).write_mongo(URI, "db", "empty")
    assert held(mongo, "empty")[-1] == {"_id": 7, "id": 1}


@pytest.mark.contract("F10.25")
def test_a_write_that_breaks_off_in_the_middle_leaves_each_row_once(rd: Any, mongo: Any) -> None:
    mongo.store("break-off", 3)
    rd.range(10, override_num_blocks=1).write_mongo(URI, "db", "empty")
    assert sorted(one["id"] for one in held(mongo, "empty")) == list(range(10))
    rows = [{"_id": i, "id": i} for i in range(10)]
    mongo.store("mongo-host", {"db": {"empty": []}})
    mongo.store("break-off", 3)
    rd.from_items(rows, override_num_blocks=1).write_mongo(URI, "db", "empty")
    assert held(mongo, "empty") == rows
    with pytest.raises(ray.exceptions.RayTaskError, match="E11000"):
        rd.from_items([{"_id": 3, "id": 4}]).write_mongo(URI, "db", "empty")


# --- ClickHouse ------------------------------------------------------------------------------------

SCHEMA = pa.schema({"id": pa.int64(), "name": pa.string()})


@pytest.fixture
def clickhouse(service: Any) -> Any:
    with sqlite3.connect(service.root() / "clickhouse.db") as db:
        db.execute("CREATE TABLE numbers (id INTEGER, name TEXT)")
        db.executemany("INSERT INTO numbers VALUES (?, ?)", [(i, f"n{i}") for i in range(200)])
    return service


@pytest.mark.contract("F10.04")
def test_rows_of_clickhouse_by_their_order(rd: Any, clickhouse: Any) -> None:
    read = rd.read_clickhouse(
        table="numbers", dsn=DSN, order_by=(["id"], True), override_num_blocks=3
    ).materialize()
    assert [row["id"] for row in read.take_all()] == list(range(199, -1, -1))
    assert list(map(len, ray.get(read.get_internal_block_refs()))) == [
        67,
        67,
        66,
    ]
    one = rd.read_clickhouse(
        table="numbers", dsn=DSN, columns=["name"], filter="id < 5", order_by=(["id"], False)
    )
    assert one.take_all() == [{"name": f"n{i}"} for i in range(5)]
    none = rd.read_clickhouse(table="numbers", dsn=DSN, filter="name = ';'")
    assert (none.count(), none.columns()) == (0, ["id", "name"])


@pytest.mark.contract("F10.04")
@pytest.mark.parametrize("what", ["clickhouse-read", "clickhouse-stream"])
def test_a_stream_of_clickhouse_that_ends_early_is_read_again(
    rd: Any, clickhouse: Any, what: str
) -> None:
    clickhouse.fault(what, times=2, after=1 if what == "clickhouse-stream" else 0)
    assert ids(rd.read_clickhouse(table="numbers", dsn=DSN)) == list(range(200))


@pytest.mark.contract("F10.04")
def test_what_clickhouse_is_not_asked(rd: Any, clickhouse: Any) -> None:
    for condition, said in (
        ("1; DROP TABLE numbers", "Invalid characters outside of string literals"),
        ("nought = 1", "Invalid filter expression.*no such column"),
    ):
        with pytest.raises(ValueError, match=said):
            rd.read_clickhouse(table="numbers", dsn=DSN, filter=condition)
    with pytest.raises(Exception, match="no such table: number"):
        rd.read_clickhouse(table="number", dsn=DSN).take_all()
    with pytest.raises(ValueError, match="leave it out"):
        rd.read_clickhouse(table="numbers", dsn=DSN, columns=[])
    assert ids(rd.read_clickhouse(table="numbers", dsn=DSN)) == list(range(200))


@pytest.mark.contract("F10.25", "F10.32")
def test_a_table_of_clickhouse_is_made_added_to_and_replaced(rd: Any, clickhouse: Any) -> None:
    rows = rd.from_items([{"name": str(i), "id": i} for i in range(10)], override_num_blocks=2)

    def write(**options: Any) -> list[int]:
        rows.write_clickhouse("made", DSN, **options)
        return ids(rd.read_clickhouse(table="made", dsn=DSN))

    settings = rd.ClickHouseTableSettings(order_by="id", settings="index_granularity = 8192")
    with pytest.raises(ValueError, match=r"pass its pyarrow\.Schema"):
        write()
    assert write(schema=SCHEMA, table_settings=settings) == list(range(10))
    assert clickhouse.load("statements", {})["made"].split("\\n") == [
        "CREATE TABLE IF NOT EXISTS made (`id` Int64, `name` String)",
        "ENGINE = MergeTree()",
        "ORDER BY id SETTINGS index_granularity = 8192",
    ]
    with pytest.raises(ValueError, match="already exists in mode='CREATE'"):
        write(schema=SCHEMA)
    assert write(mode=rd.SinkMode.APPEND, max_insert_block_rows=2) == sorted([*range(10)] * 2)
    with pytest.raises(ValueError, match="Conflict with order_by"):
        write(mode=rd.SinkMode.APPEND, table_settings=rd.ClickHouseTableSettings(order_by="name"))
    with pytest.raises(ValueError, match=r"pass its pyarrow\.Schema"):
        write(mode=rd.SinkMode.OVERWRITE)
    assert write(mode=rd.SinkMode.OVERWRITE, schema=SCHEMA) == list(range(10))
    assert "ORDER BY id" in clickhouse.load("statements", {})["made"]


@pytest.mark.contract("F10.25")
def test_insertions_into_clickhouse_have_tokens_and_are_not_sent_twice(
    rd: Any, clickhouse: Any
) -> None:
    rd.range(10, override_num_blocks=2).write_clickhouse(
        "numbers", DSN, mode=rd.SinkMode.APPEND, max_insert_block_rows=3
    )
    sent = clickhouse.load("insertions", [])
    assert sorted(rows for _, rows in sent) == [2, 2, 3, 3]
    assert len({token for token, _ in sent}) == 4
    clickhouse.fault("clickhouse-write")
    with pytest.raises(ray.exceptions.RayTaskError, match="connection refused"):
        rd.range(3).write_clickhouse("numbers", DSN, mode=rd.SinkMode.APPEND)


# --- BigQuery --------------------------------------------------------------------------------------


@pytest.mark.contract("F10.04", "F10.25")
def test_a_table_of_bigquery_there_and_back(rd: Any, service: Any) -> None:
    rd.range(10, override_num_blocks=3).write_bigquery("project", "d.t")
    read = rd.read_bigquery("project", "d.t")
    assert ids(read) == list(range(10))
    assert read.materialize().num_blocks() >= 3
    assert ids(rd.read_bigquery("project", query="SELECT * FROM d.t")) == list(range(10))
    rd.range(5).write_bigquery("project", "d.t", overwrite_table=False)
    assert len(ids(rd.read_bigquery("project", "d.t"))) == 15
    rd.range(2).write_bigquery("project", "d.t")
    assert ids(rd.read_bigquery("project", "d.t")) == [0, 1]


@pytest.mark.contract("F10.04", "F10.25")
def test_what_bigquery_is_not_asked(rd: Any, service: Any) -> None:
    rd.range(1).write_bigquery("project", "d.t")
    with pytest.raises(ValueError, match="mutually exclusive"):
        rd.read_bigquery("project", dataset="d.t", query="SELECT 1")
    with pytest.raises(ValueError, match=r"dataset='dataset\.table'"):
        rd.read_bigquery("project", "t")
    with pytest.raises(ValueError, match=r"dataset='dataset\.table'"):
        rd.range(1).write_bigquery("project", "t")
    for name, said in (("x.t", "Dataset x is not found"), ("d.x", r"Table d\.x is not found")):
        with pytest.raises(ValueError, match=said):
            rd.read_bigquery("project", name).take_all()


@pytest.mark.contract("F10.25")
def test_blocks_that_bigquery_refuses_are_loaded_again(
    rd: Any, service: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    service.fault("bigquery-load", times=1)
    rd.range(4, override_num_blocks=2).write_bigquery("project", "d.t")
    assert ids(rd.read_bigquery("project", "d.t")) == list(range(4))
    service.fault("bigquery-load", times=100)
    with pytest.raises(ray.exceptions.RayTaskError, match="refused 2 times"):
        rd.range(4, override_num_blocks=1).write_bigquery("project", "d.t", max_retry_cnt=1)


@pytest.mark.contract("F10.25")
def test_a_process_that_dies_after_loading_leaves_each_row_once(rd: Any, service: Any) -> None:
    service.fault("bigquery-die")
    rd.range(8, override_num_blocks=2).write_bigquery("project", "d.t")
    assert ids(rd.read_bigquery("project", "d.t")) == list(range(8))


# --- Snowflake, and databases that share the rows of a query ---------------------------------------

PLACE = {"user": "me", "account": "here"}


@pytest.fixture
def snowflake(service: Any) -> Any:
    with sqlite3.connect(service.root() / "here.db") as db:
        db.execute('CREATE TABLE numbers ("id" INTEGER, "name" TEXT)')
        rows = [(i, None if i % 9 == 0 else f"n{i}") for i in range(300)]
        db.executemany("INSERT INTO numbers VALUES (?, ?)", rows)
        db.execute('CREATE TABLE empty ("id" INTEGER, "name" TEXT)')
    return service


@pytest.mark.contract("F10.04")
@pytest.mark.parametrize("keys", [["name"], ["id", "name"]])
def test_tasks_share_the_rows_of_a_query_by_keys(rd: Any, snowflake: Any, keys: list[str]) -> None:
    read = rd.read_snowflake(
        "SELECT * FROM numbers", PLACE, shard_keys=keys, override_num_blocks=4
    ).materialize()
    assert ids(read) == list(range(300))
    sizes = [len(table) for table in ray.get(read.get_internal_block_refs())]
    assert len([size for size in sizes if size > 20]) == 4


@pytest.mark.contract("F10.04")
def test_one_task_reads_where_rows_cannot_be_shared(
    rd: Any, snowflake: Any, caplog: pytest.LogCaptureFixture
) -> None:
    without = {**PLACE, "has_functions": False}
    read = rd.read_snowflake(
        "SELECT * FROM numbers", without, shard_keys=["name"], override_num_blocks=4
    )
    assert ids(read) == list(range(300))
    assert "One task reads all" in caplog.text
    assert rd.read_snowflake("SELECT * FROM empty", PLACE, shard_keys=["id"]).take_all() == []
    assert "password" not in repr(rd.read_snowflake("SELECT 1", {"password": "x"}))


@pytest.mark.contract("F10.25")
def test_rows_go_to_snowflake_by_the_names_of_columns(rd: Any, snowflake: Any) -> None:
    rows = [{"name": f"m{i}", "id": i} for i in range(10)]
    rd.from_items(rows, override_num_blocks=2).write_snowflake("empty", PLACE)
    read = rd.read_snowflake("SELECT * FROM empty", PLACE).take_all()
    assert sorted(read, key=lambda row: row["id"]) == [
        {"id": i, "name": f"m{i}"} for i in range(10)
    ]
    snowflake.fault("snowflake-write")
    with pytest.raises(ray.exceptions.RayTaskError, match="connection is closed"):
        rd.from_items(rows).write_snowflake("empty", PLACE)
    with pytest.raises(ValueError, match="no columns"):
        rd.from_items([]).write_snowflake("empty", PLACE)


@pytest.mark.contract("F10.04")
def test_what_is_no_connection_of_a_database(rd: Any) -> None:
    class Nothing:
        def cursor(self) -> Any:
            return object()

        def close(self) -> None:
            pass

    with pytest.raises(ValueError, match="PEP 249"):
        rd.read_sql("SELECT 1", Nothing).take_all()


# --- Turbopuffer -----------------------------------------------------------------------------------


@pytest.mark.contract("F10.25")
def test_rows_go_to_namespaces_of_turbopuffer(
    rd: Any, service: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [
        {"key": None if i == 3 else i, "v": np.array([i, 1.0]), "of": "ab"[i % 2], "text": str(i)}
        for i in range(7)
    ]
    place = {"region": "here", "id_column": "key", "vector_column": "v", "batch_size": 2}
    monkeypatch.delenv("TURBOPUFFER_API_KEY", raising=False)
    dataset = rd.from_items(rows)
    with pytest.raises(ValueError, match="TURBOPUFFER_API_KEY"):
        dataset.write_turbopuffer(namespace="all", **place)
    place["api_key"] = "secret"
    service.fault("turbopuffer", times=2)
    dataset.write_turbopuffer(namespace="all", **place)
    dataset.write_turbopuffer(namespace_column="of", **place)
    found = service.load("turbopuffer", {})
    assert sorted(found["all"]) == [0, 1, 2, 4, 5, 6]
    assert found["all"][2] == {"id": 2, "vector": [2.0, 1.0], "of": "a", "text": "2"}
    assert (sorted(found["a"]), sorted(found["b"])) == ([0, 2, 4, 6], [1, 5])
    assert found["b"][1] == {"id": 1, "vector": [1.0, 1.0], "text": "1"}


@pytest.mark.contract("F10.25")
def test_what_turbopuffer_is_not_asked(rd: Any, service: Any) -> None:
    dataset = rd.from_items([{"id": 1, "vector": [1.0], "of": None}])
    key = {"api_key": "secret", "region": "here"}
    for options, said in (
        (key, "neither is given"),
        ({**key, "namespace": "a", "namespace_column": "of"}, "not both"),
        ({**key, "namespace": "a", "base_url": "http://x"}, "not both"),
        ({**key, "namespace": "a", "id_column": "vector"}, "different columns"),
        ({**key, "namespace": "a", "batch_size": 0}, "1 or more"),
    ):
        with pytest.raises(ValueError, match=said):
            dataset.write_turbopuffer(**options)
    with pytest.raises(ValueError, match="without a value"):
        dataset.write_turbopuffer(namespace_column="of", **key)
    with pytest.raises(ValueError, match="no column 'key'"):
        dataset.write_turbopuffer(namespace="a", id_column="key", **key)


# --- what all have in common -----------------------------------------------------------------------


@pytest.mark.contract("F10.04")
def test_a_wrong_name_of_an_option_is_told_at_the_call(rd: Any, mongo: Any, tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"read_mongo\(\).*'allow_disk' \(did you mean 'allowDisk"):
        rd.read_mongo(URI, "db", "numbers", allow_disk=True)
    with pytest.raises(TypeError, match="did you mean 'concurrency'"):
        rd.read_snowflake("SELECT 1", {}, concurency=2)
    (tmp_path / "a.csv").write_text("x\n1\n")
    (tmp_path / "a.json").write_text('{"x": 1}')
    for read, option, near in (
        (rd.read_csv, "parse_option", "parse_options"),
        (rd.read_csv, "override_num_block", "override_num_blocks"),
        (rd.read_parquet, "include_path", "include_paths"),
        (rd.read_json, "filesytem", "filesystem"),
        (rd.read_numpy, "mmap_mod", "mmap_mode"),
        (rd.read_images, "colums", "columns"),
        (rd.read_text, "encodin", "encoding"),
    ):
        with pytest.raises(TypeError, match=f"{option}") as told:
            read(str(tmp_path), file_extensions=None, **{option: 1})
        if near != "columns":
            assert f"did you mean {near!r}" in str(told.value)
    for kind, option, near in (
        ("parquet", "row_group_sise", "row_group_size"),
        ("csv", "write_option", "write_options"),
        ("json", "orientt", "orient"),
        ("orc", "stripe_sise", "stripe_size"),
        ("numpy", "colunm", None),
    ):
        given = {option: 1, **({"column": "id"} if kind == "numpy" else {})}
        with pytest.raises(TypeError, match=option) as told:
            getattr(rd.range(1), f"write_{kind}")(str(tmp_path / "out"), **given)
        if near:
            assert f"did you mean {near!r}" in str(told.value)
    inside = r"parse_options=pyarrow.csv.ParseOptions\(delimiter=...\)"
    with pytest.raises(TypeError, match=rf"'delimeter' \(did you mean {inside}\?\)"):
        rd.read_csv(str(tmp_path), delimeter=";")
    with pytest.raises(
        TypeError, match=r"write_sql\(\).*'concurency' \(did you mean 'concurrency'"
    ):
        rd.range(1).write_sql("INSERT INTO t VALUES (?)", None, concurency=2)
    with pytest.raises(TypeError, match=r"write_images\(\).*did you mean 'file_format'"):
        rd.range(1).write_images(str(tmp_path / "out"), "id", file_formt="jpg")
    with pytest.raises(ValueError, match=r"'concurency' is not an option.*'concurrency'"):
        rd.range(1).map(lambda row: row, concurency=2)
    with pytest.raises(ValueError, match="fn_args have no meaning"):
        rd.range(1).with_column("x", rd.expressions.col("id"), fn_args=[1])
    assert not (tmp_path / "out").exists() or not os.listdir(tmp_path / "out")
