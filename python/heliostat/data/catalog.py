"""Catalogs: what says of a table's name where the table is, and who may read it."""

from __future__ import annotations

import datetime
import os
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from heliostat.data.databricks import (
    DatabricksCredentialProvider,
    StaticCredentialProvider,
    Workspace,
)
from heliostat.data.http import HttpError

if TYPE_CHECKING:
    import pyarrow as pa

Answer = dict[str, Any]  # of the service, as its JSON has it


class ReaderFormat(str, Enum):
    """The reader that asks a catalog.

    Examples:
        >>> from ray.data import ReaderFormat
        >>> [reader.value for reader in ReaderFormat]
        ['delta', 'parquet', 'iceberg']
    """

    DELTA = "delta"
    PARQUET = "parquet"
    ICEBERG = "iceberg"


class CatalogAccessMode(str, Enum):
    """The purpose of a catalog's credentials.

    Examples:
        >>> from ray.data import CatalogAccessMode
        >>> [mode.value for mode in CatalogAccessMode]
        ['read', 'write']
    """

    READ = "read"
    WRITE = "write"


@dataclass
class ResolvedSource:
    """The answer of a catalog about a table; a reader takes what it understands.

    Args:
        path: Where the files are (Delta, Parquet).
        filesystem: A ``pyarrow.fs.FileSystem`` that may read them.
        storage_options: The same as deltalake takes it.
        catalog_kwargs: Arguments of ``pyiceberg.catalog.load_catalog`` (Iceberg).
        table_identifier: The table's name there.
        data_format: What the table is, where that is known.

    Examples:
        >>> from ray.data import ReaderFormat, ResolvedSource
        >>> source = ResolvedSource(path="s3://lake/orders", data_format=ReaderFormat.PARQUET)
        >>> source.path
        's3://lake/orders'
    """

    path: str | None = None
    filesystem: pa.fs.FileSystem = field(default=None, repr=False)
    storage_options: dict[str, str] | None = field(default=None, repr=False)
    catalog_kwargs: dict[str, object] | None = field(default=None, repr=False)
    table_identifier: str | None = None
    data_format: ReaderFormat | None = None


class Catalog(ABC):
    """Base class of catalogs: derive from it, and pass an instance to a reader as ``catalog``.

    Examples:
        >>> import ray
        >>> from ray.data import Catalog, CatalogAccessMode, ResolvedSource
        >>> class Folders(Catalog):
        ...     def resolve(self, table, *, reader, mode=CatalogAccessMode.READ):
        ...         return ResolvedSource(path=f"/lake/{table.replace('.', '/')}")
        >>> Folders().resolve("shop.orders", reader=ray.data.ReaderFormat.PARQUET).path
        '/lake/shop/orders'

        ``ray.data.read_parquet("shop.orders", catalog=Folders())`` reads that folder.
    """

    @abstractmethod
    def resolve(
        self,
        table: str,
        *,
        reader: ReaderFormat,
        mode: CatalogAccessMode = CatalogAccessMode.READ,
    ) -> ResolvedSource:
        """Return where a table is, for a reader.

        Args:
            table: The table's name.
            reader: Which reader asks.
            mode: What the credentials are for. Default: reading.
        """


class DatabricksUnityCatalog(Catalog):
    """The Unity Catalog of a workspace of Databricks, or one that speaks as it does.

    For tables of Delta and Parquet it gives credentials that hold for a while and for the table alone; they
    go with the tasks. Tables of Iceberg are read through its own service.

    Args:
        url: The workspace's address.
        token: A token of its.
        credential_provider: What knows both, instead.
        region: Where a bucket of S3 is.

    Raises:
        ValueError: There is neither a provider nor both of the others.

    Examples:
        >>> import ray
        >>> from ray.data import DatabricksUnityCatalog
        >>> catalog = DatabricksUnityCatalog(
        ...     url="https://dbc-1234.cloud.databricks.com", token="dapi-secret", region="us-west-2"
        ... )
        >>> def trips():
        ...     return ray.data.read_delta("main.taxi.trips", catalog=catalog)
    """

    def __init__(
        self,
        *,
        url: str | None = None,
        token: str | None = None,
        credential_provider: DatabricksCredentialProvider | None = None,
        region: str | None = None,
    ) -> None:
        if credential_provider is None:
            if not (url and token):
                raise ValueError(
                    "Either 'credential_provider' or both 'url' and 'token' must be provided."
                )
            credential_provider = StaticCredentialProvider(token, url)
        self.url, self.token = url, token
        self.credential_provider, self.region = credential_provider, region
        self._workspace = Workspace(credential_provider)

    def __repr__(self) -> str:
        return f"DatabricksUnityCatalog(url={self._workspace.address!r}, region={self.region!r})"

    def resolve(
        self,
        table: str,
        *,
        reader: ReaderFormat,
        mode: CatalogAccessMode = CatalogAccessMode.READ,
    ) -> ResolvedSource:
        """Return where a table is, for a reader.

        Args:
            table: Its name, as "catalog.schema.table".
            reader: Which reader asks.
            mode: What the credentials are for.

        Raises:
            ValueError: There is no such table, or ``region`` is missing.
            NotImplementedError: The reader knows no credentials of that kind.
            heliostat.data.http.HttpError: The catalog refuses.
        """
        reader, mode = ReaderFormat(reader), CatalogAccessMode(mode)
        if reader is ReaderFormat.ICEBERG:
            catalog, _, name = table.partition(".")
            return ResolvedSource(
                table_identifier=name,
                catalog_kwargs={
                    "type": "rest",
                    "uri": f"{self._workspace.address}/api/2.1/unity-catalog/iceberg-rest",
                    "warehouse": catalog,
                    "token": self._workspace.token(),
                    "header.X-Iceberg-Access-Delegation": "vended-credentials",
                },
                data_format=ReaderFormat.ICEBERG,
            )
        about = self._about(table)
        given = self._credentials(about["table_id"], mode)
        path = given.get("url") or about["storage_location"]
        found = ResolvedSource(path=path, data_format=_format(about, path))
        for name, access in _ACCESS.items():
            if given.get(name):
                access(self, given, found, reader)
                return found
        if urlsplit(path).scheme not in ("", "file"):
            raise ValueError(
                f"{self} gave no credentials for {table} that are known here; there are "
                f"{sorted(given)}."
            )
        return found

    def infer_format(self, table: str) -> ReaderFormat | None:
        """Return what a table is, None if the catalog does not say.

        Args:
            table: Its name, as "catalog.schema.table".
        """
        about = self._about(table)
        return _format(about, about.get("storage_location") or "")

    def _about(self, table: str) -> Answer:
        try:
            found: Answer = self._workspace.ask(
                "GET", f"/api/2.1/unity-catalog/tables/{quote(table)}"
            )
        except HttpError as error:
            if error.status == 404:
                raise ValueError(f"{self} has no table {table}: {error.said}") from error
            raise
        return found

    def _credentials(self, table_id: str, mode: CatalogAccessMode) -> Answer:
        wanted = "READ" if mode is CatalogAccessMode.READ else "READ_WRITE"
        found: Answer = self._workspace.ask(
            "POST",
            "/api/2.1/unity-catalog/temporary-table-credentials",
            {"table_id": table_id, "operation": wanted},
        )
        return found


def _of_aws(
    catalog: DatabricksUnityCatalog, given: Answer, found: ResolvedSource, reader: ReaderFormat
) -> None:
    if not catalog.region:
        raise ValueError(
            "The 'region' parameter is required for AWS S3 access, such as region='us-west-2'."
        )
    keys = given["aws_temp_credentials"]
    if reader is ReaderFormat.DELTA:
        found.storage_options = {
            "AWS_ACCESS_KEY_ID": keys["access_key_id"],
            "AWS_SECRET_ACCESS_KEY": keys["secret_access_key"],
            "AWS_SESSION_TOKEN": keys["session_token"],
            "AWS_REGION": catalog.region,
        }
        return
    from pyarrow.fs import S3FileSystem

    found.filesystem = S3FileSystem(
        access_key=keys["access_key_id"],
        secret_key=keys["secret_access_key"],
        session_token=keys["session_token"],
        region=catalog.region,
    )


def _of_azure(
    catalog: DatabricksUnityCatalog, given: Answer, found: ResolvedSource, reader: ReaderFormat
) -> None:
    token = given["azure_user_delegation_sas"]["sas_token"].removeprefix("?")
    if reader is ReaderFormat.DELTA:
        found.storage_options = {"AZURE_STORAGE_SAS_TOKEN": token}
        return
    from pyarrow.fs import AzureFileSystem

    parts = urlsplit(found.path or "")
    account = (parts.hostname or "").partition(".")[0]
    found.filesystem = AzureFileSystem(account_name=account, sas_token=token)
    found.path = f"{parts.username}{parts.path}"  # container@account.host/path


def _of_google(
    catalog: DatabricksUnityCatalog, given: Answer, found: ResolvedSource, reader: ReaderFormat
) -> None:
    if reader is ReaderFormat.DELTA:
        raise NotImplementedError(
            "Delta tables on Google Cloud Storage: deltalake takes no tokens as the catalog gives them. Read "
            "the table with read_delta(path, storage_options=...)."
        )
    from pyarrow.fs import GcsFileSystem

    until = datetime.datetime.fromtimestamp(
        given["expiration_time"] / 1000, tz=datetime.timezone.utc
    )
    found.filesystem = GcsFileSystem(
        access_token=given["gcp_oauth_token"]["oauth_token"], credential_token_expiration=until
    )


_ACCESS = {
    "aws_temp_credentials": _of_aws,
    "azure_user_delegation_sas": _of_azure,
    "gcp_oauth_token": _of_google,
}


def _format(about: Answer, path: str) -> ReaderFormat | None:
    """Return the format of a table, by the catalog's answer, or by its name's ending."""
    said = str(about.get("data_source_format") or "").lower()
    if said == "delta":
        also = (about.get("properties") or {}).get("delta.universalFormat.enabledFormats", "")
        return ReaderFormat.ICEBERG if "iceberg" in also.lower() else ReaderFormat.DELTA
    for name in (said, os.path.splitext(path)[1].removeprefix(".").lower()):
        if name in [one.value for one in ReaderFormat]:
            return ReaderFormat(name)
    return None


def resolved(
    catalog: Catalog,
    table: object,
    reader: ReaderFormat,
    mode: CatalogAccessMode = CatalogAccessMode.READ,
) -> ResolvedSource:
    """Return the catalog's answer about the table that a reader or writer was given as its path.

    Raises:
        TypeError: It is not a catalog.
        ValueError: It is not a single name.
    """
    if not isinstance(catalog, Catalog):
        raise TypeError(
            f"catalog is a {type(catalog).__name__}: it has to be a ray.data.Catalog, such as "
            "ray.data.DatabricksUnityCatalog(...)."
        )
    if isinstance(table, (list, tuple)) and len(table) == 1:
        (table,) = table
    if not isinstance(table, str):
        raise ValueError(f"With a catalog, one table is read by its name; {table!r} is none.")
    return catalog.resolve(table, reader=reader, mode=mode)
