"""Writing of a dataset: to files below a folder, or to a sink."""

from __future__ import annotations

import contextlib
import inspect
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from heliostat.core.platform.extras import required
from heliostat.data import block
from heliostat.data.catalog import Catalog, CatalogAccessMode, ReaderFormat, resolved
from heliostat.data.checkpoint import resume
from heliostat.data.dataset.base import Base
from heliostat.data.expressions import Expr
from heliostat.data.plan.operators import Map, TaskPoolStrategy
from heliostat.data.plan.transforms import MapStream, Tables
from heliostat.data.sinks import files
from heliostat.data.sinks.datasink import Datasink, WriteResult, Writing
from heliostat.data.sinks.files import FilenameProvider, SaveMode, Sink
from heliostat.data.sinks.sql import SqlSink
from heliostat.data.sources.options import refuse

if TYPE_CHECKING:
    from heliostat.data.aliases import Value


logger = logging.getLogger("heliostat.data")

_NAMES = (
    "filesystem",
    "mode",
    "try_create_dir",
    "min_rows_per_file",
    "num_rows_per_file",
    "min_bytes_per_file",
    "filename_provider",
    "ray_remote_args",
    "concurrency",
    "arrow_open_stream_args",
)
# The parameters that `inspect` and `help` show in the place of ``**options``, with the defaults.
OF_FILES: dict[str, object] = {
    **{name: None for name in _NAMES if name != "min_bytes_per_file"},
    "try_create_dir": True,
    "mode": SaveMode.APPEND,
}


@dataclass(frozen=True)
class FileOptions:
    """The keywords that all writers of files take."""

    filesystem: pa.fs.FileSystem | None = None  # of pyarrow or fsspec
    mode: SaveMode = SaveMode.APPEND
    try_create_dir: bool = True
    min_rows: int = 0
    min_bytes: int = 0
    names: FilenameProvider | None = None
    remote_args: dict[str, object] = field(default_factory=dict)
    concurrency: int | None = None
    open_args: dict[str, object] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        writer: str,
        given: Mapping[str, Any],
        theirs: Callable[[], Iterable[str]] = tuple,
    ) -> tuple[FileOptions, dict[str, Any]]:
        """(the keywords of all writers, those of the format).

        Args:
            writer: Its name, for the error.
            given: The keywords.
            theirs: The names that the format takes.

        Raises:
            TypeError: Neither takes one of the keywords.
            ValueError: ``min_bytes_per_file`` is below 1.
        """
        left = dict(given)
        ours = {name: left.pop(name) for name in _NAMES if name in left}
        if left:
            known = set(theirs())
            refuse(writer, [k for k in left if k not in known], (*_NAMES, *known), ())
        least = ours.get("min_bytes_per_file")
        if least is not None and least < 1:
            raise ValueError(f"{writer}: min_bytes_per_file is {least}; it has to be 1 or more.")
        made = cls(
            ours.get("filesystem"),
            files.save_mode(ours.get("mode", SaveMode.APPEND)),
            ours.get("try_create_dir", True),
            ours.get("min_rows_per_file") or ours.get("num_rows_per_file") or 0,
            least or 0,
            ours.get("filename_provider"),
            dict(ours.get("ray_remote_args") or {}),
            ours.get("concurrency"),
            dict(ours.get("arrow_open_stream_args") or {}),
        )
        return made, left


def to_files(
    dataset: Base,
    label: str,
    path: str,
    options: FileOptions,
    ending: str,
    encode: Callable[[pa.Table], object],
    **form: Any,
) -> None:
    """Write a file for each block, or for as many as have enough rows; what fails leaves none."""
    checkpoint = dataset._context.checkpoint_config
    place = files.prepare(
        path,
        options.filesystem,
        SaveMode.APPEND
        if resume.is_begun(checkpoint)
        else options.mode,  # it is there by this write
        options.try_create_dir,
    )
    if place is None:
        logger.warning("[SaveMode=%s] Skipping %s", SaveMode.IGNORE, path)
        return
    to = Sink(*place, ending, encode, names=options.names, open_args=options.open_args, **form)
    source, joins = dataset._plan, bool(options.min_rows or options.min_bytes)
    stream: resume.Stream = (
        _OneFile(to) if joins else to
    )  # each task then joins its blocks into one file
    resumed = None
    if checkpoint is not None:
        resumed = resume.Resumed(checkpoint, dataset._context, to.write_id)
        source = resumed.source(source, to.path, to.filesystem)
        stream = resumed.stream(stream)
    plan = Map(
        source,
        MapStream(stream, f"Write{label}"),
        TaskPoolStrategy(options.concurrency),
        options.remote_args,
        options.min_rows,
        begins_stage=joins,
        min_bytes=options.min_bytes,
    )
    bundles = dataset._bundles(plan)
    try:
        for _ in bundles:
            pass
    except BaseException:
        bundles.close()
        if resumed is None:
            with contextlib.suppress(Exception):  # what failed is told, not this
                to.undo()
        raise
    if resumed is not None:
        resumed.complete()


def to_sink(
    dataset: Base,
    datasink: Datasink[Value],
    remote_args: dict[str, object] | None,
    concurrency: int | None,
) -> None:
    """Write the blocks of each task to a sink."""
    rows, least = datasink.min_rows_per_write or 0, datasink.min_bytes_per_write or 0
    stream: resume.Stream = Writing(datasink)
    source, resumed = dataset._plan, None
    if dataset._context.checkpoint_config is not None:
        resume.check_sink(datasink)
        resumed = resume.Resumed(dataset._context.checkpoint_config, dataset._context)
        source, stream = resumed.source(source), resumed.stream(stream)
    plan = Map(
        source,
        MapStream(stream, f"Write{datasink.get_name()}"),
        TaskPoolStrategy(concurrency),
        dict(remote_args or {}),
        rows,
        min_bytes=least,
        begins_stage=bool(rows or least),
    )
    try:
        datasink.on_write_start()
        found = [row for t in dataset._tables(plan) if t.num_columns for row in block.rows(t)]
    except Exception as error:
        datasink.on_write_failed(error)
        raise
    total, size = (sum(row[name] for row in found) for name in ("rows", "bytes"))
    datasink.on_write_complete(WriteResult(total, size, [row["returned"] for row in found]))
    if resumed is not None:
        resumed.complete()


def at(
    catalog: Catalog | None, name: str, options: dict[str, object]
) -> tuple[str, dict[str, Any]]:
    """The folder of a table of Parquet files, and the options with its file system."""
    if catalog is None:
        return name, options
    found = resolved(catalog, name, ReaderFormat.PARQUET, CatalogAccessMode.WRITE)
    filesystem = found.filesystem or options.get("filesystem")
    return found.path or "", {**options, "filesystem": filesystem}


def to_iceberg(
    dataset: Base,
    table_identifier: str,
    catalog_kwargs: dict[str, Any] | None,
    catalog: Catalog | None,
    snapshot_properties: dict[str, str] | None,
    mode: SaveMode | str,
    overwrite_filter: Any,
    upsert_kwargs: dict[str, Any] | None,
    overwrite_kwargs: dict[str, Any] | None,
) -> Datasink[Value] | None:
    """The sink of an Iceberg table; None: there are no columns to write."""
    save = files.save_mode(mode)
    if catalog is not None and not catalog_kwargs:
        where = resolved(catalog, table_identifier, ReaderFormat.ICEBERG, CatalogAccessMode.WRITE)
        table_identifier = where.table_identifier or table_identifier
        catalog_kwargs = where.catalog_kwargs
    if isinstance(overwrite_filter, Expr):
        raise NotImplementedError(
            "overwrite_filter takes a text such as 'x > 3' or an expression of pyiceberg so far."
        )
    if save not in (SaveMode.APPEND, SaveMode.OVERWRITE, SaveMode.UPSERT):
        raise ValueError(f"write_iceberg appends, overwrites or upserts, not {save.value!r}.")
    from heliostat.data.iceberg import iceberg_table
    from heliostat.data.sinks.iceberg import IcebergSink

    table = iceberg_table(table_identifier, catalog_kwargs)
    options, keys = dict(overwrite_kwargs or {}), []
    if save is SaveMode.UPSERT:
        options = dict(upsert_kwargs or {})
        keys = list(options.pop("join_cols", None) or table.schema().identifier_field_names())
        if not keys:
            raise ValueError(
                "write_iceberg(mode='upsert') needs upsert_kwargs={'join_cols': [...]}: the table "
                "has no identifier fields."
            )
    schema = dataset._arrow_schema()
    if schema is None and not dataset._lacks_columns:
        return None
    return IcebergSink(
        table_identifier,
        catalog_kwargs,
        schema if schema is not None else pa.schema([]),
        save,
        overwrite_filter,
        keys,
        options,
        snapshot_properties,
    )


def to_snowflake(
    dataset: Base, table: str, connection_parameters: dict[str, object]
) -> Datasink[Value]:
    """The sink of a table of Snowflake."""
    from heliostat.data.sources.sql import Snowflake

    required("snowflake.connector", "Tables of Snowflake")
    schema = dataset._arrow_schema()
    if schema is None:
        raise ValueError("write_snowflake: the dataset has no columns.")
    columns = ", ".join('"' + name.replace('"', '""') + '"' for name in schema.names)
    places = ", ".join(["%s"] * len(schema.names))
    return SqlSink(
        f"INSERT INTO {table} ({columns}) VALUES ({places})",
        Snowflake(connection_parameters),
        list(schema.names),
        "Snowflake",
    )


def _parameters(*functions: Callable[..., object]) -> Iterable[str]:
    """The names of what functions take."""
    return {name for one in functions for name in inspect.signature(one).parameters}


def of_parquet() -> Iterable[str]:
    """The names of what pyarrow's writer of Parquet takes."""
    import pyarrow.parquet as pq

    return _parameters(pq.write_table, pq.ParquetWriter.__init__)


def of_orc() -> Iterable[str]:
    """The names of what pyarrow's writer of ORC takes."""
    from pyarrow import orc

    return _parameters(orc.write_table)


def of_json() -> Iterable[str]:
    """The names of what ``DataFrame.to_json`` takes."""
    import pandas as pd

    return _parameters(pd.DataFrame.to_json)


def no_table(_: pa.Table) -> bytes:
    """Pictures are files of rows, not of tables."""
    raise AssertionError("pictures are written row by row")


class _OneFile:
    """Joins all blocks of a task before they are written."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink

    def __call__(self, tables: Tables) -> Tables:
        full = [t for t in tables if t.num_rows]
        return self._sink(iter([block.concat(full)] if full else []))
