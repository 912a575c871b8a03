"""Databricks, its catalog, and Delta Sharing, by a local server that answers as they do."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import ray

from tests import clients
from tests.helpers import data_services

CLUSTER = clients.cluster()


@pytest.fixture
def workspace(monkeypatch: pytest.MonkeyPatch) -> Iterator[data_services.Service]:
    with data_services.serving() as service:
        monkeypatch.setenv("DATABRICKS_HOST", service.url)
        monkeypatch.setenv("DATABRICKS_TOKEN", "good")
        yield service


def numbers(begin: int, end: int) -> pa.Table:
    return pa.table({"id": list(range(begin, end))})


# --- queries ---------------------------------------------------------------------------------------


@pytest.mark.heliostat_only("Ray asks a server by https")
@pytest.mark.contract("F10.04")
def test_a_query_of_databricks_is_read_in_pieces(
    rd: Any, workspace: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace.chunks = [numbers(0, 5), numbers(5, 6), numbers(6, 10)]
    read = rd.read_databricks_tables(
        warehouse_id="w", table="t", catalog="c", schema="s", override_num_blocks=2
    )
    assert workspace.asked == []
    monkeypatch.delenv("DATABRICKS_TOKEN")  # what was there at the call goes with it
    assert [row["id"] for row in read.take_all()] == list(range(10))
    assert workspace.asked[0] == (
        "POST",
        "/api/2.0/sql/statements",
        {
            "statement": "select * from t",
            "warehouse_id": "w",
            "wait_timeout": "0s",
            "disposition": "EXTERNAL_LINKS",
            "format": "ARROW_STREAM",
            "catalog": "c",
            "schema": "s",
        },
    )
    workspace.chunks = []
    none = rd.read_databricks_tables(
        warehouse_id="w",
        query="select",
        credential_provider=Renewed(workspace.url, ["good"]),
    )
    assert (none.count(), none.columns()) == (0, ["id"])


@pytest.mark.heliostat_only("Ray gives up")
@pytest.mark.contract("F10.04")
@pytest.mark.parametrize("statuses", [[503, 429], [403]])
def test_a_piece_that_is_refused_for_now_is_asked_for_again(
    rd: Any, workspace: Any, statuses: list[int]
) -> None:
    workspace.chunks, workspace.busy = [numbers(0, 5)], statuses
    read = rd.read_databricks_tables(warehouse_id="w", query="select 1")
    assert read.count() == 5
    workspace.busy = [404]
    with pytest.raises(Exception, match="was answered 404: not now"):
        rd.read_databricks_tables(warehouse_id="w", query="select 1").take_all()


@pytest.mark.heliostat_only("our sentences")
@pytest.mark.contract("F10.04")
def test_what_databricks_refuses(rd: Any, workspace: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for options, said in (
        ({"table": "t", "query": "q"}, "Only one of 'query' and 'table'"),
        ({}, "One of 'query' and 'table'"),
    ):
        with pytest.raises(ValueError, match=said):
            rd.read_databricks_tables(warehouse_id="w", **options)
    workspace.state = "FAILED"
    with pytest.raises(RuntimeError, match=r"execution failed \(FAILED\): no such table"):
        rd.read_databricks_tables(warehouse_id="w", table="t").take_all()
    monkeypatch.setenv("DATABRICKS_TOKEN", "bad")
    with pytest.raises(Exception, match="was answered 401: who are you"):
        rd.read_databricks_tables(warehouse_id="w", table="t").take_all()
    monkeypatch.delenv("DATABRICKS_TOKEN")
    with pytest.raises(ValueError, match="DATABRICKS_TOKEN"):
        rd.read_databricks_tables(warehouse_id="w", table="t")
    nowhere = Renewed("http://127.0.0.1:9", ["good"])
    monkeypatch.setattr("heliostat.data.retries.ATTEMPTS_MAX", 2)
    with pytest.raises(ConnectionError, match="refused"):
        rd.read_databricks_tables(
            warehouse_id="w", table="t", credential_provider=nowhere
        ).take_all()


from ray.data._internal.datasource.databricks_credentials import (  # noqa: E402
    DatabricksCredentialProvider,
)


class Renewed(DatabricksCredentialProvider):
    """A token after another."""

    def __init__(self, host: str, tokens: list[str]) -> None:
        self.host, self.tokens = host, tokens

    def get_token(self) -> str:
        return self.tokens[0]

    def get_host(self) -> str:
        return self.host

    def invalidate(self) -> None:
        self.tokens = self.tokens[1:]


@pytest.mark.heliostat_only("Ray asks a server by https")
@pytest.mark.contract("F10.04")
def test_a_token_that_has_run_out_is_renewed_once(rd: Any, workspace: Any) -> None:
    workspace.chunks = [numbers(0, 3)]

    def read(*tokens: str) -> Any:
        provider = Renewed(workspace.url, list(tokens))
        return rd.read_databricks_tables(
            warehouse_id="w", table="t", credential_provider=provider
        ).count()

    assert read("old", "good") == 3
    with pytest.raises(Exception, match="answered 401"):
        read("old", "older", "good")


# --- the catalog -----------------------------------------------------------------------------------


@pytest.fixture
def catalog(rd: Any, workspace: Any) -> Any:
    return rd.DatabricksUnityCatalog(url=workspace.url, token="good", region="here")


def about(place: Any, form: str = "PARQUET", **more: Any) -> dict[str, Any]:
    return {"table_id": "i", "storage_location": str(place), "data_source_format": form, **more}


@pytest.mark.heliostat_only("Ray asks by a package of Databricks's")
@pytest.mark.contract("F10.04", "F10.32")
def test_a_table_of_a_catalog_by_its_name(
    rd: Any, workspace: Any, catalog: Any, tmp_path: Path
) -> None:
    place = f"file://{tmp_path}/t"
    workspace.tables["c.s.t"] = about(place)
    rd.range(10).write_parquet("c.s.t", catalog=catalog)
    assert workspace.asked[-1][2] == {"table_id": "i", "operation": "READ_WRITE"}
    assert rd.read_parquet("c.s.t", catalog=catalog).count() == 10
    assert rd.read_parquet(["c.s.t"], catalog=catalog, columns=["id"]).sum("id") == 45
    with pytest.warns(DeprecationWarning, match="read_unity_catalog"):
        assert rd.read_unity_catalog("c.s.t", workspace.url, "good").count() == 10
    with pytest.raises(ValueError, match=r"has no table c\.s\.x"):
        rd.read_parquet("c.s.x", catalog=catalog)
    with pytest.raises(ValueError, match="one table is read by its name"):
        rd.read_parquet(["c.s.t", "c.s.u"], catalog=catalog)
    with pytest.raises(TypeError, match=r"has to be a ray\.data\.Catalog"):
        rd.read_parquet("c.s.t", catalog="unity")
    workspace.tables["c.s.t"] = about(place, "CSV")
    with (
        pytest.warns(DeprecationWarning, match="read_unity_catalog"),
        pytest.raises(ValueError, match="Could not infer the data format"),
    ):
        rd.read_unity_catalog("c.s.t", workspace.url, "good")


@pytest.mark.heliostat_only("Ray puts them into the environment")
@pytest.mark.contract("F10.32")
def test_credentials_of_a_catalog_are_for_the_reader(rd: Any, workspace: Any, catalog: Any) -> None:
    workspace.tables["c.s.t"] = about("s3://bucket/t", "DELTA")
    keys = {"access_key_id": "a", "secret_access_key": "b", "session_token": "c"}
    workspace.credentials = {"url": "s3://bucket/t", "aws_temp_credentials": keys}
    found = catalog.resolve("c.s.t", reader=rd.ReaderFormat.DELTA)
    assert (found.path, found.data_format) == ("s3://bucket/t", rd.ReaderFormat.DELTA)
    assert found.storage_options["AWS_SESSION_TOKEN"] == "c"
    assert found.storage_options["AWS_REGION"] == "here"
    assert "AWS" not in repr(found)
    found = catalog.resolve("c.s.t", reader=rd.ReaderFormat.PARQUET)
    assert found.filesystem.type_name == "s3"
    nowhere = rd.DatabricksUnityCatalog(url=workspace.url, token="good")
    with pytest.raises(ValueError, match="'region' parameter is required"):
        nowhere.resolve("c.s.t", reader=rd.ReaderFormat.DELTA)
    assert "good" not in repr(nowhere)

    place = "abfss://box@account.dfs.core.windows.net/t"
    workspace.credentials = {"url": place, "azure_user_delegation_sas": {"sas_token": "?sv=1"}}
    found = catalog.resolve("c.s.t", reader=rd.ReaderFormat.DELTA)
    assert found.storage_options == {"AZURE_STORAGE_SAS_TOKEN": "sv=1"}

    token = {"oauth_token": "x"}
    workspace.credentials = {"url": "gs://b/t", "gcp_oauth_token": token, "expiration_time": 10**13}
    with pytest.raises(NotImplementedError, match="Google Cloud Storage"):
        catalog.resolve("c.s.t", reader=rd.ReaderFormat.DELTA)
    found = catalog.resolve("c.s.t", reader=rd.ReaderFormat.PARQUET)
    assert found.filesystem.type_name == "gcs"

    workspace.credentials = {"url": "r2://b/t", "r2_temp_credentials": {}}
    with pytest.raises(ValueError, match=r"no credentials for c\.s\.t that are known"):
        catalog.resolve("c.s.t", reader=rd.ReaderFormat.DELTA)


@pytest.mark.heliostat_only("Ray asks by a package of Databricks's")
@pytest.mark.contract("F10.32")
def test_tables_of_iceberg_have_a_service_of_the_catalog(
    rd: Any, workspace: Any, catalog: Any
) -> None:
    found = catalog.resolve("c.s.t", reader=rd.ReaderFormat.ICEBERG)
    assert found.table_identifier == "s.t"
    assert found.catalog_kwargs["uri"] == f"{workspace.url}/api/2.1/unity-catalog/iceberg-rest"
    assert (found.catalog_kwargs["warehouse"], found.catalog_kwargs["token"]) == ("c", "good")
    uniform = {"delta.universalFormat.enabledFormats": "iceberg"}
    for form, properties, wanted in (
        ("DELTA", {}, rd.ReaderFormat.DELTA),
        ("DELTA", uniform, rd.ReaderFormat.ICEBERG),
        ("PARQUET", {}, rd.ReaderFormat.PARQUET),
        ("CSV", {}, None),
    ):
        workspace.tables["c.s.t"] = about("s3://b/t", form, properties=properties)
        assert catalog.infer_format("c.s.t") is wanted
    with pytest.raises(ValueError, match="'credential_provider' or both"):
        rd.DatabricksUnityCatalog(url=workspace.url)


# --- Delta Sharing ---------------------------------------------------------------------------------


@pytest.fixture
def profile(workspace: Any, service: Any, tmp_path: Path) -> str:
    path = tmp_path / "profile.json"
    path.write_text(
        json.dumps({"shareCredentialsVersion": 1, "endpoint": workspace.url, "bearerToken": "good"})
    )
    workspace.schema = [
        {"name": name, "type": kind}
        for name, kind in (("id", "long"), ("day", "date"), ("price", "decimal(9,2)"))
    ]
    for i in range(3):
        values = {"day": f"2024-01-0{i + 1}"} if i else {}
        workspace.shared[f"f{i}"] = (numbers(i * 2, i * 2 + 2), values)
    return f"{path}#s.x.t"


@pytest.mark.heliostat_only("the stand-in knows what this library asks of the package")
@pytest.mark.contract("F10.04")
def test_a_shared_table_is_read_by_files(rd: Any, workspace: Any, profile: str) -> None:
    workspace.busy = [503]
    read = rd.read_delta_sharing_tables(profile, version=3)
    assert read.schema().names == ["id", "day", "price"]
    assert read.schema().types == [pa.int64(), pa.date32(), pa.decimal128(9, 2)]
    rows = sorted(read.take_all(), key=lambda row: row["id"])
    assert [row["id"] for row in rows] == list(range(6))
    assert [str(row["day"]) for row in rows[::2]] == ["None", "2024-01-02", "2024-01-03"]
    asked = [body for _, path, body in workspace.asked if path.endswith("/query")]
    assert {"version": 3} in asked
    assert rd.read_delta_sharing_tables(profile, limit=3).count() == 3
    workspace.shared.clear()
    assert rd.read_delta_sharing_tables(profile).take_all() == []


@pytest.mark.heliostat_only("our sentences")
@pytest.mark.contract("F10.04")
def test_what_is_no_shared_table(rd: Any, workspace: Any, profile: str) -> None:
    for url in ("profile.json", "profile.json#s.t", "#s.x.t", "p#s..t"):
        with pytest.raises(ValueError, match="Invalid 'url'"):
            rd.read_delta_sharing_tables(url)
    with pytest.raises(ValueError, match="non-negative"):
        rd.read_delta_sharing_tables(profile, limit=-1)
    workspace.tokens = []
    with pytest.raises(Exception, match="401"):
        rd.read_delta_sharing_tables(profile).take_all()
    workspace.tokens = ["good"]
    workspace.busy = [404]
    with pytest.raises(ray.exceptions.RayTaskError, match="answered 404"):
        rd.read_delta_sharing_tables(profile).take_all()


@pytest.mark.heliostat_only("Ray has no patterns")
@pytest.mark.contract("F10.03")
def test_a_path_may_be_a_pattern(rd: Any, tmp_path: Path) -> None:
    for number, name in enumerate(
        ("x1/a.csv", "x1/deep/b.csv", "x2/c.csv", "x2/.d.csv", "[y].csv")
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"n\n{number}\n")
    for pattern, wanted in (
        ("x?/*.csv", [0, 2]),
        ("x1/*", [0, 1]),
        ("**/[bc].csv", [1, 2]),
        ("x*", [0, 1, 2]),
        ("x1/**", [0, 1]),
        ("[y].csv", [4]),
    ):
        found = rd.read_csv(f"{tmp_path}/{pattern}").take_all()
        assert sorted(row["n"] for row in found) == wanted, pattern
    with pytest.raises(FileNotFoundError, match=r"nothing matches the pattern"):
        rd.read_csv(f"{tmp_path}/*.tsv")
    some = rd.read_csv([f"{tmp_path}/x2/*", f"{tmp_path}/*.tsv"], ignore_missing_paths=True)
    assert some.take_all() == [{"n": 2}]
