"""The methods of ``Dataset`` that write it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from heliostat.data import checks, missing, tfrecords
from heliostat.data.catalog import Catalog, CatalogAccessMode, ReaderFormat, resolved
from heliostat.data.dataset import writing
from heliostat.data.dataset.consume import Consumers
from heliostat.data.dataset.writing import OF_FILES, FileOptions
from heliostat.data.sinks import files
from heliostat.data.sinks.datasink import Datasink
from heliostat.data.sinks.files import SaveMode
from heliostat.data.sinks.sql import SqlSink
from heliostat.data.sources.options import shows, spelled_methods

if TYPE_CHECKING:
    import pyarrow as pa

    from heliostat.data.aliases import Value
    from heliostat.data.sinks.clickhouse import ClickHouseTableSettings, SinkMode
    from heliostat.data.sources.sql import Connection


@spelled_methods("Dataset")
class Writers(Consumers):
    """The methods of ``Dataset`` that write it."""

    # --- files ---

    @shows(OF_FILES, "arrow_parquet_args", min_bytes_per_file=None)
    def write_parquet(
        self,
        path: str,
        *,
        partition_cols: list[str] | None = None,
        arrow_parquet_args_fn: files.OptionsFn | None = None,
        max_rows_per_file: int | None = None,
        catalog: Catalog | None = None,
        **options: Any,
    ) -> None:
        """Write Parquet files into a folder. If it fails or is interrupted, its files are deleted.

        Args:
            path: The folder, as a path or URI; it is made if it is not there.
            partition_cols: Columns that become folders, ``name=value``.
            arrow_parquet_args_fn: Gives options of ``pyarrow.parquet.write_table`` in the task.
            max_rows_per_file: Larger blocks become several files.
            catalog: A ``Catalog`` that knows where the table is whose name is ``path``.
            **options: ``filesystem``, ``mode`` (a ``SaveMode``), ``min_rows_per_file`` and
                ``min_bytes_per_file`` (in memory): blocks are joined until a file has as many of both;
                ``filename_provider``, ``concurrency``, ``ray_remote_args``, ``try_create_dir``,
                ``arrow_open_stream_args``; ``schema``, a ``pyarrow.Schema`` that says the columns'
                order and types; the others go to ``pyarrow.parquet.write_table``.

        Raises:
            ValueError: The folder is there and ``mode`` forbids that, or ``min_rows_per_file`` is
                more than ``max_rows_per_file``; ``min_bytes_per_file`` is below 1.

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
        path, options = writing.at(catalog, path, options)
        ours, theirs = FileOptions.of("write_parquet", options, writing.of_parquet)
        columns = checks.names("partition_cols", partition_cols or [])
        missing.require(columns, self._known_columns(), "write_parquet: partition_cols")
        encode = files.ParquetBytes(theirs, arrow_parquet_args_fn, columns)
        rows = max_rows_per_file
        writing.to_files(
            self, "Parquet", path, ours, "parquet", encode, partition_cols=columns, max_rows=rows
        )

    @shows(OF_FILES, "arrow_csv_args")
    def write_csv(
        self, path: str, *, arrow_csv_args_fn: files.OptionsFn | None = None, **options: object
    ) -> None:
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
        known = ("write_options", "memory_pool")
        ours, theirs = FileOptions.of("write_csv", options, lambda: known)
        encode = files.CsvBytes(theirs, arrow_csv_args_fn)
        writing.to_files(self, "CSV", path, ours, "csv", encode)

    @shows(OF_FILES, "arrow_orc_args")
    def write_orc(
        self, path: str, *, arrow_orc_args_fn: files.OptionsFn | None = None, **options: object
    ) -> None:
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
        ours, theirs = FileOptions.of("write_orc", options, writing.of_orc)
        if "compression" in ours.open_args:
            raise ValueError(
                "ORC files cannot be compressed as a stream: pass `compression` to write_orc itself."
            )
        encode = files.OrcBytes(theirs, arrow_orc_args_fn)
        writing.to_files(self, "ORC", path, ours, "orc", encode)

    @shows(OF_FILES, "pandas_json_args")
    def write_json(
        self, path: str, *, pandas_json_args_fn: files.OptionsFn | None = None, **options: object
    ) -> None:
        """Write files with a JSON object a line into a folder.

        Args:
            path: The folder, as a path or URI; it is made if it is not there.
            pandas_json_args_fn: Gives options of ``DataFrame.to_json`` in the task. Default: none.
            **options: As of :meth:`write_csv`; others go to ``DataFrame.to_json``.

        Raises:
            ValueError: The folder is there and ``mode`` forbids that.
            TypeError: There is no such option.
        """
        ours, theirs = FileOptions.of("write_json", options, writing.of_json)
        encode = files.JsonBytes(theirs, pandas_json_args_fn)
        writing.to_files(self, "JSON", path, ours, "json", encode)

    @shows(OF_FILES)
    def write_numpy(self, path: str, *, column: str, **options: object) -> None:
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
        ours, _ = FileOptions.of("write_numpy", options)
        writing.to_files(self, "Numpy", path, ours, "npy", files.NumpyBytes(column))

    @shows(OF_FILES)
    def write_tfrecords(self, path: str, *, tf_schema: object = None, **options: object) -> None:
        """Write TFRecord files, a ``tf.train.Example`` a row; needs no TensorFlow.

        Args:
            path: The folder, as a path or URI.
            tf_schema: The ``Schema`` of tensorflow-metadata that says the features and their types.
            **options: Those of :meth:`write_parquet`.

        Raises:
            ImportError: While executing: ``protobuf`` or ``google-crc32c`` is not installed.
            ValueError: While executing: a column is not of numbers, text, bytes or lists of them.
        """
        ours, _ = FileOptions.of("write_tfrecords", options)
        encode = files.TfRecordBytes(tfrecords.kinds_of(tf_schema))
        writing.to_files(self, "TFRecords", path, ours, "tfrecords", encode)

    @shows(OF_FILES)
    def write_webdataset(self, path: str, *, encoder: object = True, **options: object) -> None:
        """Write tar archives with a file for each value, named by the row's key and the column.

        Args:
            path: The folder, as a path or URI.
            encoder: A function of a row that gives bytes or text by ending, or a list of functions.
                Default: by the columns' names, such as "txt", "cls", "json", "npy", "jpg".
            **options: Those of :meth:`write_parquet`.

        Raises:
            ValueError: While executing: a value is neither text nor bytes after the encoder.
        """
        ours, _ = FileOptions.of("write_webdataset", options)
        encode = files.WebDatasetBytes(encoder)
        writing.to_files(self, "WebDataset", path, ours, "tar", encode)

    @shows(OF_FILES)
    def write_images(
        self, path: str, column: str, file_format: str = "png", **options: object
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
        ours, _ = FileOptions.of("write_images", options)
        by_row = files.ImageBytes(column, file_format)
        writing.to_files(self, "Images", path, ours, file_format, writing.no_table, by_row=by_row)

    # --- sinks, tables, databases and queues ---

    def write_datasink(
        self,
        datasink: Datasink[Value],
        *,
        ray_remote_args: dict[str, object] | None = None,
        concurrency: int | None = None,
    ) -> None:
        """Write to a sink of the program's own.

        Args:
            datasink: The sink.
            ray_remote_args: Options of ``ray.remote`` for the tasks. Default: none.
            concurrency: Tasks at a time. Default: as many as there is room for.
        """
        writing.to_sink(self, datasink, ray_remote_args, concurrency)

    def write_sql(
        self,
        sql: str,
        connection_factory: Callable[[], Connection],
        ray_remote_args: dict[str, object] | None = None,
        concurrency: int | None = None,
    ) -> None:
        """Run a statement for each row, such as ``INSERT INTO t VALUES(?, ?)``.

        Args:
            sql: The statement; the columns of a row are its parameters, in order.
            connection_factory: Makes a connection of Python's database interface, in each task.
            ray_remote_args: Options of the tasks.
            concurrency: Tasks at a time.
        """
        sink = SqlSink(sql, connection_factory)
        writing.to_sink(self, sink, ray_remote_args, concurrency)

    def write_delta(
        self,
        path: str,
        *,
        catalog: Catalog | None = None,
        mode: SaveMode | str = SaveMode.APPEND,
        partition_by: list[str] | None = None,
        storage_options: dict[str, str] | None = None,
        schema_mode: str = "merge",
        filesystem: pa.fs.FileSystem | None = None,
        name: str | None = None,
        description: str | None = None,
        ray_remote_args: dict[str, object] | None = None,
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
            files.save_mode(mode),
            partition_by,
            storage_options,
            schema_mode,
            name,
            description,
        )
        if sink.check():
            writing.to_sink(self, sink, ray_remote_args, concurrency)

    def write_iceberg(
        self,
        table_identifier: str,
        catalog_kwargs: dict[str, object] | None = None,
        catalog: Catalog | None = None,
        snapshot_properties: dict[str, str] | None = None,
        mode: SaveMode | str = SaveMode.APPEND,
        overwrite_filter: object = None,
        upsert_kwargs: dict[str, object] | None = None,
        overwrite_kwargs: dict[str, object] | None = None,
        ray_remote_args: dict[str, object] | None = None,
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
        sink = writing.to_iceberg(
            self,
            table_identifier,
            catalog_kwargs,
            catalog,
            snapshot_properties,
            mode,
            overwrite_filter,
            upsert_kwargs,
            overwrite_kwargs,
        )
        if sink is not None:
            writing.to_sink(self, sink, ray_remote_args, concurrency)

    def write_lance(
        self,
        path: str,
        *,
        schema: pa.Schema | None = None,
        mode: SaveMode | str = SaveMode.CREATE,
        min_rows_per_file: int = 1024 * 1024,
        max_rows_per_file: int = 64 * 1024 * 1024,
        data_storage_version: str | None = None,
        storage_options: dict[str, str] | None = None,
        table_id: list[str] | None = None,
        namespace_impl: str | None = None,
        namespace_properties: dict[str, str] | None = None,
        ray_remote_args: dict[str, object] | None = None,
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

        options: dict[str, object] = {"max_rows_per_file": max_rows_per_file}
        if data_storage_version is not None:
            options["data_storage_version"] = data_storage_version
        sink = LanceSink(
            path, schema, files.save_mode(mode), min_rows_per_file, options, storage_options
        )
        if sink.check():
            writing.to_sink(self, sink, ray_remote_args, concurrency)

    def write_mongo(
        self,
        uri: str,
        database: str,
        collection: str,
        ray_remote_args: dict[str, object] | None = None,
        concurrency: int | None = None,
    ) -> None:
        """Insert each row as a document into a MongoDB collection that is there.

        Rows without a column "_id" get one by which a task that is tried again finds what it has inserted.

        Args:
            uri: Of the server, such as "mongodb://host:27017".
            database: The name of the database.
            collection: The name of the collection.
            ray_remote_args: Options of the tasks.
            concurrency: Tasks at a time.

        Raises:
            ImportError: pymongo is not installed.
            ValueError: There is no such database or collection.
            ray.exceptions.RayTaskError: There is another document of the same "_id", or the server refuses
                one.
        """
        from heliostat.data.sinks.mongo import MongoSink

        sink = MongoSink(uri, database, collection)
        writing.to_sink(self, sink, ray_remote_args, concurrency)

    def write_clickhouse(
        self,
        table: str,
        dsn: str,
        *,
        mode: SinkMode | int = 1,
        schema: pa.Schema | None = None,
        client_settings: dict[str, object] | None = None,
        client_kwargs: dict[str, object] | None = None,
        table_settings: ClickHouseTableSettings | None = None,
        max_insert_block_rows: int | None = None,
        ray_remote_args: dict[str, object] | None = None,
        concurrency: int | None = None,
    ) -> None:
        """Insert into a table of ClickHouse.

        A task that is tried again after its process died inserts again what was inserted already, unless the
        table takes insertions with the same token once.

        Args:
            table: Its name, such as "default.numbers".
            dsn: Of the server, such as "clickhouse+http://user:password@host:8123/default".
            mode: A ``SinkMode``. CREATE (default) makes the table and refuses one that is there, APPEND adds
                rows, and makes one that is not there, OVERWRITE replaces it.
            schema: The ``pyarrow.Schema`` of a table that is made, to which rows are cast.
            client_settings: Settings of the server for these requests.
            client_kwargs: Further arguments of ``clickhouse_connect.get_client``.
            table_settings: How a table is made.
            max_insert_block_rows: Rows of an insertion at most. Default: all of a block.
            ray_remote_args: Options of the tasks.
            concurrency: Tasks at a time.

        Raises:
            ImportError: clickhouse-connect is not installed.
            ValueError: There is such a table (CREATE), it is ordered by something else (APPEND), or there is
                no schema to make one of.
        """
        from heliostat.data.clickhouse import Server
        from heliostat.data.sinks.clickhouse import ClickHouseSink, SinkMode

        server = Server(dsn, dict(client_settings or {}), dict(client_kwargs or {}))
        sink = ClickHouseSink(
            table, server, SinkMode(mode), schema, table_settings, max_insert_block_rows
        )
        writing.to_sink(self, sink, ray_remote_args, concurrency)

    def write_bigquery(
        self,
        project_id: str,
        dataset: str,
        max_retry_cnt: int = 10,
        overwrite_table: bool | None = True,
        ray_remote_args: dict[str, object] | None = None,
        concurrency: int | None = None,
    ) -> None:
        """Load into a table of BigQuery; one that is not there is made.

        Args:
            project_id: The project that is billed, and that the table is of.
            dataset: The table, as "dataset.table".
            max_retry_cnt: How often a block is tried again after a refusal for too many requests.
            overwrite_table: Whether a table that is there is dropped first; else rows are added.
            ray_remote_args: Options of the tasks.
            concurrency: Tasks at a time.

        Raises:
            ImportError: google-cloud-bigquery is not installed.
            ValueError: ``dataset`` is no "dataset.table".
            ray.exceptions.RayTaskError: A block was refused too often, or its columns are not the table's.
        """
        from heliostat.data.sinks.bigquery import BigQuerySink

        sink = BigQuerySink(project_id, dataset, max_retry_cnt, bool(overwrite_table))
        writing.to_sink(self, sink, ray_remote_args, concurrency)

    def write_snowflake(
        self,
        table: str,
        connection_parameters: dict[str, object],
        *,
        ray_remote_args: dict[str, object] | None = None,
        concurrency: int | None = None,
    ) -> None:
        """Insert into a table of Snowflake that is there, in one transaction a task.

        Args:
            table: Its name, such as "DATABASE.SCHEMA.TABLE"; it has columns of the dataset's names, to the
                letter.
            connection_parameters: Arguments of ``snowflake.connector.connect``.
            ray_remote_args: Options of the tasks.
            concurrency: Tasks at a time.

        Raises:
            ImportError: snowflake-connector-python is not installed.
            ValueError: The dataset has no columns.
        """
        sink = writing.to_snowflake(self, table, connection_parameters)
        writing.to_sink(self, sink, ray_remote_args, concurrency)

    def write_kafka(
        self,
        topic: str,
        bootstrap_servers: str,
        key_field: str | None = None,
        key_serializer: str = "string",
        value_serializer: str = "json",
        producer_config: dict[str, object] | None = None,
        *,
        ray_remote_args: dict[str, object] | None = None,
        concurrency: int | None = None,
    ) -> None:
        """Send each row as a message to a topic of Kafka, at least once.

        A task that is tried again sends all its messages again.

        Args:
            topic: Its name.
            bootstrap_servers: Brokers, as "host:port,host:port".
            key_field: The column that is the messages' key. Default: they have none.
            key_serializer: What a key becomes: "string", "json" or "bytes".
            value_serializer: What a row becomes: "json", "string" (as Python writes it) or "bytes".
            producer_config: Settings of librdkafka, such as ``{"acks": "all"}``.
            ray_remote_args: Options of the tasks.
            concurrency: Tasks at a time.

        Raises:
            ImportError: confluent-kafka is not installed.
            ValueError: There is no such serializer.
            ray.exceptions.RayTaskError: A message was not delivered, or no broker could be reached.
        """
        from heliostat.data.sinks.kafka import KafkaSink, form

        sink = KafkaSink(
            topic,
            bootstrap_servers,
            key_field,
            form("key_serializer", key_serializer),
            form("value_serializer", value_serializer),
            dict(producer_config or {}),
        )
        writing.to_sink(self, sink, ray_remote_args, concurrency)

    def write_turbopuffer(
        self,
        *,
        namespace: str | None = None,
        namespace_column: str | None = None,
        region: str | None = None,
        base_url: str | None = None,
        api_key: str | None = None,
        schema: dict[str, object] | None = None,
        id_column: str = "id",
        vector_column: str = "vector",
        batch_size: int = 10_000,
        distance_metric: str = "cosine_distance",
        ray_remote_args: dict[str, object] | None = None,
        concurrency: int | None = None,
    ) -> None:
        """Upsert rows into a namespace of Turbopuffer, or into those that a column names.

        Args:
            namespace: The namespace of all rows.
            namespace_column: The column that says which is whose, instead; it is not written.
            region: Turbopuffer's region, such as "gcp-us-central1".
            base_url: The address of the service, instead.
            api_key: The key. Default: that of the environment variable ``TURBOPUFFER_API_KEY``.
            schema: Turbopuffer's schema of the namespace. Default: it is found out there.
            id_column: The column of ids; rows without one are left out.
            vector_column: The column of vectors.
            batch_size: Rows of a request at most.
            distance_metric: "cosine_distance" or "euclidean_squared".
            ray_remote_args: Options of the tasks.
            concurrency: Tasks at a time.

        Raises:
            ImportError: turbopuffer is not installed.
            ValueError: There are both or neither of the namespaces or of the places, or there is no key.
        """
        from heliostat.data.sinks.turbopuffer import TurbopufferDatasink

        sink = TurbopufferDatasink(
            namespace,
            namespace_column=namespace_column,
            region=region,
            base_url=base_url,
            api_key=api_key,
            schema=schema,
            id_column=id_column,
            vector_column=vector_column,
            batch_size=batch_size,
            distance_metric=distance_metric,
        )
        writing.to_sink(self, sink, ray_remote_args, concurrency)
