"""Writing a dataset to files."""

from __future__ import annotations

import contextlib
import inspect
import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, cast

from heliostat.data import block, tfrecords
from heliostat.data.catalog import CatalogAccessMode, ReaderFormat, resolved
from heliostat.data.checkpoint import resume
from heliostat.data.dataset.base import Base
from heliostat.data.expressions import Expr
from heliostat.data.plan.operators import Map, TaskPoolStrategy
from heliostat.data.plan.transforms import MapStream
from heliostat.data.sinks import files
from heliostat.data.sinks.datasink import Datasink, WriteResult, Writing
from heliostat.data.sinks.files import SaveMode, Sink
from heliostat.data.sinks.sql import SqlSink
from heliostat.data.sources.options import refuse

if TYPE_CHECKING:
    from heliostat.data.dataset import Dataset

logger = logging.getLogger("heliostat.data")


class Write(Base):
    """Part of ``Dataset``."""

    def _write(self, label: str, path: str, options: dict[str, Any], **sink: Any) -> None:
        checkpoint = self._context.checkpoint_config
        mode = options.pop("mode", SaveMode.APPEND)
        place = files.prepare(
            path,
            options.pop("filesystem", None),
            SaveMode.APPEND if resume.is_begun(checkpoint) else mode,  # it is there by this write
            options.pop("try_create_dir", True),
        )
        if place is None:
            logger.warning("[SaveMode=%s] Skipping %s", SaveMode.IGNORE, path)
            return
        min_rows = options.pop("min_rows_per_file", None) or options.pop("num_rows_per_file", None)
        options.pop("num_rows_per_file", None)
        remote = dict(options.pop("ray_remote_args", None) or {})
        concurrency = options.pop("concurrency", None)
        to = Sink(
            *place,
            names=options.pop("filename_provider", None),
            open_args=dict(options.pop("arrow_open_stream_args", None) or {}),
            **sink,
        )
        options.pop("min_bytes_per_file", None)
        refuse(f"write_{label.lower()}", options, _OURS, ())
        source = self._plan
        stream: resume.Stream = (
            _OneFile(to) if min_rows else to
        )  # each task then joins its blocks into one file
        resumed = None
        if checkpoint is not None:
            resumed = resume.Resumed(checkpoint, self._context, to.write_id)
            source = resumed.source(source, to.path, to.filesystem)
            stream = resumed.stream(stream)
        plan = Map(
            source,
            MapStream(stream, f"Write{label}"),
            TaskPoolStrategy(concurrency),
            remote,
            min_rows or 0,
            begins_stage=bool(min_rows),
        )
        bundles = self._bundles(plan)
        try:
            for _ in bundles:
                pass
        except BaseException:
            bundles.close()  # type: ignore[attr-defined] # a generator
            if resumed is None:
                with contextlib.suppress(Exception):  # what failed is told, not this
                    to.undo()
            raise
        if resumed is not None:
            resumed.complete()

    def write_parquet(
        self,
        path: str,
        *,
        partition_cols: list[str] | None = None,
        arrow_parquet_args_fn: Any = None,
        max_rows_per_file: int | None = None,
        catalog: Any = None,
        **options: Any,
    ) -> None:
        """Write Parquet files into a folder. If it fails or is interrupted, its files are deleted.

        Args:
            path: The folder, as a path or URI; it is made if it is not there.
            partition_cols: Columns that become folders, ``name=value``.
            arrow_parquet_args_fn: Gives options of ``pyarrow.parquet.write_table`` in the task.
            max_rows_per_file: Larger blocks become several files.
            catalog: A ``Catalog`` that knows where the table is whose name is ``path``.
            **options: ``filesystem``, ``mode`` (a ``SaveMode``), ``min_rows_per_file``,
                ``filename_provider``, ``concurrency``, ``ray_remote_args``, ``try_create_dir``,
                ``arrow_open_stream_args``; ``schema``, a ``pyarrow.Schema`` that says the columns'
                order and types; the others go to ``pyarrow.parquet.write_table``.

        Raises:
            ValueError: The folder is there and ``mode`` forbids that, or ``min_rows_per_file`` is
                more than ``max_rows_per_file``.

        Examples:
            >>> import ray
            >>> import tempfile
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     ray.data.range(3).write_parquet(folder)
            ...     ray.data.read_parquet(folder).count()
            3
        """
        least = options.get("min_rows_per_file") or 0
        if max_rows_per_file is not None and max_rows_per_file < max(1, least):
            raise ValueError(
                f"max_rows_per_file ({max_rows_per_file}) must be at least 1, and at least "
                f"min_rows_per_file ({least})."
            )
        if catalog is not None:
            found = resolved(catalog, path, ReaderFormat.PARQUET, CatalogAccessMode.WRITE)
            path = found.path or ""
            options["filesystem"] = found.filesystem or options.get("filesystem")
        ours, theirs = _split("write_parquet", options, _of_parquet)
        encode = files.ParquetBytes(theirs, arrow_parquet_args_fn, list(partition_cols or []))
        self._write(
            "Parquet",
            path,
            ours,
            ending="parquet",
            encode=encode,
            partition_cols=list(partition_cols or []),
            max_rows=max_rows_per_file,
        )

    def write_csv(self, path: str, *, arrow_csv_args_fn: Any = None, **options: Any) -> None:
        """Write CSV files into a folder.

        Args:
            path: The folder, as a path or URI; it is made if it is not there.
            arrow_csv_args_fn: Gives options of ``pyarrow.csv.write_csv`` in the task. Default: none.
            **options: As of :meth:`write_parquet`: ``filesystem``, ``mode``, ``min_rows_per_file``,
                ``filename_provider``, ``concurrency``, ``ray_remote_args``, ``try_create_dir``,
                ``arrow_open_stream_args``; and ``write_options``, ``memory_pool`` of
                ``pyarrow.csv.write_csv``.

        Raises:
            ValueError: The folder is there and ``mode`` forbids that.
            TypeError: There is no such option.
        """
        ours, theirs = _split("write_csv", options, lambda: ("write_options", "memory_pool"))
        self._write(
            "CSV", path, ours, ending="csv", encode=files.CsvBytes(theirs, arrow_csv_args_fn)
        )

    def write_orc(self, path: str, *, arrow_orc_args_fn: Any = None, **options: Any) -> None:
        """Write ORC files into a folder.

        Args:
            path: The folder, as a path or URI; it is made if it is not there.
            arrow_orc_args_fn: Gives options of ``pyarrow.orc.write_table`` in the task. Default: none.
            **options: As of :meth:`write_csv`; others go to ``pyarrow.orc.write_table``, such as
                ``compression``.

        Raises:
            ValueError: The folder is there and ``mode`` forbids that; ``arrow_open_stream_args`` asks for
                compression, which ORC has of its own; while executing: the dataset has no columns.
            TypeError: There is no such option.
        """
        ours, theirs = _split("write_orc", options, _of_orc)
        if "compression" in (ours.get("arrow_open_stream_args") or {}):
            raise ValueError(
                "ORC files cannot be compressed as a stream: pass `compression` to write_orc itself."
            )
        encode = files.OrcBytes(theirs, arrow_orc_args_fn)
        self._write("ORC", path, ours, ending="orc", encode=encode)

    def write_json(self, path: str, *, pandas_json_args_fn: Any = None, **options: Any) -> None:
        """Write files with a JSON object a line into a folder.

        Args:
            path: The folder, as a path or URI; it is made if it is not there.
            pandas_json_args_fn: Gives options of ``DataFrame.to_json`` in the task. Default: none.
            **options: As of :meth:`write_csv`; others go to ``DataFrame.to_json``.

        Raises:
            ValueError: The folder is there and ``mode`` forbids that.
            TypeError: There is no such option.
        """
        ours, theirs = _split("write_json", options, _of_json)
        encode = files.JsonBytes(theirs, pandas_json_args_fn)
        self._write("JSON", path, ours, ending="json", encode=encode)

    def write_numpy(self, path: str, *, column: str, **options: Any) -> None:
        """Write a column as ``.npy`` files into a folder.

        Args:
            path: The folder, as a path or URI; it is made if it is not there.
            column: The column.
            **options: ``filesystem`` (of pyarrow or fsspec), ``mode`` (a ``SaveMode``),
                ``min_rows_per_file``, ``filename_provider``, ``concurrency`` (tasks at a time),
                ``ray_remote_args``, ``try_create_dir`` and ``arrow_open_stream_args``.

        Raises:
            ValueError: The folder is there and ``mode`` forbids that.
            TypeError: There is no such option.
        """
        self._write("Numpy", path, options, ending="npy", encode=files.NumpyBytes(column))

    def write_tfrecords(self, path: str, *, tf_schema: Any = None, **options: Any) -> None:
        """Write TFRecord files, a ``tf.train.Example`` a row; needs no TensorFlow.

        Args:
            path: The folder, as a path or URI.
            tf_schema: The ``Schema`` of tensorflow-metadata that says the features and their types.
            **options: Those of :meth:`write_parquet`.

        Raises:
            ImportError: While executing: ``protobuf`` or ``google-crc32c`` is not installed.
            ValueError: While executing: a column is not of numbers, text, bytes or lists of them.
        """
        encode = files.TfRecordBytes(tfrecords.kinds_of(tf_schema))
        self._write("TFRecords", path, options, ending="tfrecords", encode=encode)

    def write_webdataset(self, path: str, *, encoder: Any = True, **options: Any) -> None:
        """Write tar archives with a file for each value, named by the row's key and the column.

        Args:
            path: The folder, as a path or URI.
            encoder: A function of a row that gives bytes or text by ending, or a list of functions.
                Default: by the columns' names, such as "txt", "cls", "json", "npy", "jpg".
            **options: Those of :meth:`write_parquet`.

        Raises:
            ValueError: While executing: a value is neither text nor bytes after the encoder.
        """
        encode = files.WebDatasetBytes(encoder)
        self._write("WebDataset", path, options, ending="tar", encode=encode)

    def write_sql(
        self,
        sql: str,
        connection_factory: Callable[[], Any],
        ray_remote_args: dict[str, Any] | None = None,
        concurrency: int | None = None,
    ) -> None:
        """Run a statement for each row, such as ``INSERT INTO t VALUES(?, ?)``.

        Args:
            sql: The statement; the columns of a row are its parameters, in order.
            connection_factory: Makes a connection of Python's database interface, in each task.
            ray_remote_args: Options of the tasks.
            concurrency: Tasks at a time.
        """
        self.write_datasink(
            SqlSink(sql, connection_factory),
            ray_remote_args=ray_remote_args,
            concurrency=concurrency,
        )

    def write_delta(
        self,
        path: str,
        *,
        catalog: Any = None,
        mode: SaveMode | str = SaveMode.APPEND,
        partition_by: list[str] | None = None,
        storage_options: dict[str, str] | None = None,
        schema_mode: str = "merge",
        filesystem: Any = None,
        name: str | None = None,
        description: str | None = None,
        ray_remote_args: dict[str, Any] | None = None,
        concurrency: int | None = None,
    ) -> None:
        """Write to a Delta table, in one commit at the end; a table that is not there is made.

        Args:
            path: The table's folder or URI; its name, if there is a catalog.
            catalog: A ``Catalog`` that knows where the table is, and has the credentials.
            mode: APPEND adds rows, OVERWRITE replaces all, ERROR and CREATE refuse a table that is
                there, IGNORE leaves it as it is.
            partition_by: Columns by whose values the rows lie in folders. Default: the table's.
            storage_options: What the storage needs (credentials, region), as deltalake takes it.
            schema_mode: "merge": columns that the table does not have are added to it; else they are
                an error.
            filesystem: Refused: pass ``storage_options``.
            name: Of a new table.
            description: Of a new table.
            ray_remote_args: Options of the tasks.
            concurrency: Tasks at a time.

        Raises:
            ImportError: deltalake is not installed.
            ValueError: There is such a table (ERROR, CREATE), or one of other partitions or columns. While
                executing: Delta tables have no type for a column.
            NotImplementedError: ``filesystem`` is given, or the catalog's credentials are such that deltalake
                does not take.
            deltalake.exceptions.CommitFailedError: Others have changed the table meanwhile.
        """
        if filesystem is not None:
            raise NotImplementedError(
                "write_delta takes no filesystem so far: pass storage_options."
            )
        if catalog is not None:
            found = resolved(catalog, path, ReaderFormat.DELTA, CatalogAccessMode.WRITE)
            path, storage_options = found.path or "", found.storage_options or storage_options
        from heliostat.data.sinks.delta import DeltaSink

        sink = DeltaSink(
            path,
            SaveMode(mode),
            partition_by,
            storage_options,
            schema_mode,
            name,
            description,
        )
        if sink.check():
            self.write_datasink(sink, ray_remote_args=ray_remote_args, concurrency=concurrency)

    def write_iceberg(
        self,
        table_identifier: str,
        catalog_kwargs: dict[str, Any] | None = None,
        catalog: Any = None,
        snapshot_properties: dict[str, str] | None = None,
        mode: SaveMode | str = SaveMode.APPEND,
        overwrite_filter: Any = None,
        upsert_kwargs: dict[str, Any] | None = None,
        overwrite_kwargs: dict[str, Any] | None = None,
        ray_remote_args: dict[str, Any] | None = None,
        concurrency: int | None = None,
    ) -> None:
        """Write to an Iceberg table that is there, in one commit at the end.

        Columns that the table does not have are added to it. Which the rows have is found out first,
        which may execute a part of the dataset.

        Args:
            table_identifier: Its name, such as "namespace.table".
            catalog_kwargs: Arguments of ``pyiceberg.catalog.load_catalog``.
            catalog: A ``Catalog`` that gives these arguments, unless there are some.
            snapshot_properties: Kept with the snapshot.
            mode: APPEND adds rows. OVERWRITE replaces all, or those of ``overwrite_filter``. UPSERT
                replaces those with the same keys.
            overwrite_filter: A text ("x > 3") or an expression of pyiceberg.
            upsert_kwargs: "join_cols": the keys' names (default: the table's identifier fields);
                "case_sensitive" and "branch" as pyiceberg has them.
            overwrite_kwargs: "case_sensitive" and "branch".
            ray_remote_args: Options of the tasks.
            concurrency: Tasks at a time.

        Raises:
            ImportError: pyiceberg is not installed.
            ValueError: The mode is another, or there are no keys. While executing: a column cannot be
                cast to the table's type, or two rows have the same keys.
            NotImplementedError: There is an ``overwrite_filter`` of this library.
            pyiceberg.exceptions.NoSuchTableError: There is no such table.
            pyiceberg.exceptions.CommitFailedException: Others have changed the table meanwhile.
        """
        save = SaveMode(mode)
        if catalog is not None and not catalog_kwargs:
            where = resolved(
                catalog, table_identifier, ReaderFormat.ICEBERG, CatalogAccessMode.WRITE
            )
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
        found = cast("Dataset", self).schema()
        if found is None:
            return
        sink = IcebergSink(
            table_identifier,
            catalog_kwargs,
            found.base_schema,
            save,
            overwrite_filter,
            keys,
            options,
            snapshot_properties,
        )
        self.write_datasink(sink, ray_remote_args=ray_remote_args, concurrency=concurrency)

    def write_lance(
        self,
        path: str,
        *,
        schema: Any = None,
        mode: SaveMode | str = SaveMode.CREATE,
        min_rows_per_file: int = 1024 * 1024,
        max_rows_per_file: int = 64 * 1024 * 1024,
        data_storage_version: str | None = None,
        storage_options: dict[str, str] | None = None,
        table_id: list[str] | None = None,
        namespace_impl: str | None = None,
        namespace_properties: dict[str, str] | None = None,
        ray_remote_args: dict[str, Any] | None = None,
        concurrency: int | None = None,
    ) -> None:
        """Write to a Lance dataset, in one commit at the end; one that is not there is made.

        Args:
            path: Its folder or URI.
            schema: The ``pyarrow.Schema`` to write. Default: that of the dataset at ``path`` when rows are
                appended, else that of the rows.
            mode: CREATE and ERROR refuse a dataset that is there, APPEND adds rows, OVERWRITE replaces
                all, IGNORE leaves it as it is.
            min_rows_per_file: Blocks are joined until they have so many rows.
            max_rows_per_file: Rows of a file at most.
            data_storage_version: Of Lance's file format. Default: the package's.
            storage_options: What the storage needs (credentials, region), as Lance takes it.
            table_id: Refused, as the two that follow: pass a path.
            namespace_impl: Refused.
            namespace_properties: Refused.
            ray_remote_args: Options of the tasks.
            concurrency: Tasks at a time.

        Raises:
            ImportError: pylance is not installed.
            ValueError: There is such a dataset (CREATE, ERROR).
            NotImplementedError: A namespace is given.
        """
        if table_id is not None or namespace_impl is not None or namespace_properties is not None:
            raise NotImplementedError("write_lance takes no namespace so far: pass a path.")
        from heliostat.data.sinks.lance import LanceSink

        options: dict[str, Any] = {"max_rows_per_file": max_rows_per_file}
        if data_storage_version is not None:
            options["data_storage_version"] = data_storage_version
        sink = LanceSink(path, schema, SaveMode(mode), min_rows_per_file, options, storage_options)
        if sink.check():
            self.write_datasink(sink, ray_remote_args=ray_remote_args, concurrency=concurrency)

    def write_datasink(
        self,
        datasink: Datasink[Any],
        *,
        ray_remote_args: dict[str, Any] | None = None,
        concurrency: int | None = None,
    ) -> None:
        """Write to a sink of the program's own.

        Args:
            datasink: The sink.
            ray_remote_args: Options of ``ray.remote`` for the tasks. Default: none.
            concurrency: Tasks at a time. Default: as many as there is room for.
        """
        rows = datasink.min_rows_per_write or 0
        stream: resume.Stream = Writing(datasink)
        source, resumed = self._plan, None
        if self._context.checkpoint_config is not None:
            resume.check_sink(datasink)
            resumed = resume.Resumed(self._context.checkpoint_config, self._context)
            source, stream = resumed.source(source), resumed.stream(stream)
        plan = Map(
            source,
            MapStream(stream, f"Write{datasink.get_name()}"),
            TaskPoolStrategy(concurrency),
            dict(ray_remote_args or {}),
            rows,
            begins_stage=bool(rows),
        )
        try:
            datasink.on_write_start()
            found = [row for t in self._tables(plan) if t.num_columns for row in block.rows(t)]
        except Exception as error:
            datasink.on_write_failed(error)
            raise
        total, size = (sum(row[name] for row in found) for name in ("rows", "bytes"))
        datasink.on_write_complete(WriteResult(total, size, [row["returned"] for row in found]))
        if resumed is not None:
            resumed.complete()

    def write_images(
        self, path: str, column: str, file_format: str = "png", **options: Any
    ) -> None:
        """Write each row's array as a picture into a folder.

        Args:
            path: The folder, as a path or URI; it is made if it is not there.
            column: The column of arrays: height, width and channels.
            file_format: The format, which PIL names by its ending. Default ``"png"``.
            **options: ``filesystem`` (of pyarrow or fsspec), ``mode`` (a ``SaveMode``),
                ``min_rows_per_file``, ``filename_provider``, ``concurrency`` (tasks at a time),
                ``ray_remote_args``, ``try_create_dir`` and ``arrow_open_stream_args``.

        Raises:
            ValueError: The folder is there and ``mode`` forbids that.
            TypeError: There is no such option.
        """
        self._write(
            "Images",
            path,
            options,
            ending=file_format,
            encode=_no_table,
            by_row=files.ImageBytes(column, file_format),
        )


_OURS = (
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


def _split(
    name: str, options: dict[str, Any], theirs: Callable[[], Iterable[str]]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """(options of writing, options of the format).

    Raises:
        TypeError: The format has no such option.
    """
    ours = {k: options.pop(k) for k in _OURS if k in options}
    if options:
        known = set(theirs())
        refuse(name, [k for k in options if k not in known], (*_OURS, *known), ())
    return ours, options


def _parameters(*functions: Callable[..., Any]) -> Iterable[str]:
    """The names of what functions take."""
    return {name for one in functions for name in inspect.signature(one).parameters}


def _of_parquet() -> Iterable[str]:
    import pyarrow.parquet as pq

    return _parameters(pq.write_table, pq.ParquetWriter.__init__)


def _of_orc() -> Iterable[str]:
    from pyarrow import orc

    return _parameters(orc.write_table)


def _of_json() -> Iterable[str]:
    import pandas as pd

    return _parameters(pd.DataFrame.to_json)


def _no_table(_: Any) -> bytes:
    raise AssertionError("pictures are written row by row")


class _OneFile:
    """Joins all blocks of a task before they are written."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink

    def __call__(self, tables: Any) -> Any:
        full = [t for t in tables if t.num_rows]
        return self._sink(iter([block.concat(full)] if full else []))
