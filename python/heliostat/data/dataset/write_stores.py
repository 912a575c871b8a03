"""Writing a dataset to databases and queues."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from heliostat.core.extras import required
from heliostat.data.dataset.write import Write
from heliostat.data.sinks.sql import SqlSink

if TYPE_CHECKING:
    from heliostat.data.dataset import Dataset
    from heliostat.data.sinks.clickhouse import ClickHouseTableSettings, SinkMode


class WriteStores(Write):
    """Part of ``Dataset``."""

    def write_mongo(
        self,
        uri: str,
        database: str,
        collection: str,
        ray_remote_args: dict[str, Any] | None = None,
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

        self.write_datasink(
            MongoSink(uri, database, collection),
            ray_remote_args=ray_remote_args,
            concurrency=concurrency,
        )

    def write_clickhouse(
        self,
        table: str,
        dsn: str,
        *,
        mode: SinkMode | int = 1,
        schema: Any = None,
        client_settings: dict[str, Any] | None = None,
        client_kwargs: dict[str, Any] | None = None,
        table_settings: ClickHouseTableSettings | None = None,
        max_insert_block_rows: int | None = None,
        ray_remote_args: dict[str, Any] | None = None,
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
        self.write_datasink(sink, ray_remote_args=ray_remote_args, concurrency=concurrency)

    def write_bigquery(
        self,
        project_id: str,
        dataset: str,
        max_retry_cnt: int = 10,
        overwrite_table: bool | None = True,
        ray_remote_args: dict[str, Any] | None = None,
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
        self.write_datasink(sink, ray_remote_args=ray_remote_args, concurrency=concurrency)

    def write_snowflake(
        self,
        table: str,
        connection_parameters: dict[str, Any],
        *,
        ray_remote_args: dict[str, Any] | None = None,
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
        from heliostat.data.sources.sql import Snowflake

        required("snowflake.connector", "Tables of Snowflake")
        schema = cast("Dataset", self).schema()
        if schema is None or not schema.names:
            raise ValueError("write_snowflake: the dataset has no columns.")
        columns = ", ".join('"' + name.replace('"', '""') + '"' for name in schema.names)
        places = ", ".join(["%s"] * len(schema.names))
        self.write_datasink(
            SqlSink(
                f"INSERT INTO {table} ({columns}) VALUES ({places})",
                Snowflake(connection_parameters),
                list(schema.names),
                "Snowflake",
            ),
            ray_remote_args=ray_remote_args,
            concurrency=concurrency,
        )

    def write_kafka(
        self,
        topic: str,
        bootstrap_servers: str,
        key_field: str | None = None,
        key_serializer: str = "string",
        value_serializer: str = "json",
        producer_config: dict[str, Any] | None = None,
        *,
        ray_remote_args: dict[str, Any] | None = None,
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
        self.write_datasink(sink, ray_remote_args=ray_remote_args, concurrency=concurrency)

    def write_turbopuffer(
        self,
        *,
        namespace: str | None = None,
        namespace_column: str | None = None,
        region: str | None = None,
        base_url: str | None = None,
        api_key: str | None = None,
        schema: dict[str, Any] | None = None,
        id_column: str = "id",
        vector_column: str = "vector",
        batch_size: int = 10_000,
        distance_metric: str = "cosine_distance",
        ray_remote_args: dict[str, Any] | None = None,
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
        from heliostat.data.sinks.turbopuffer import TurbopufferSink

        sink = TurbopufferSink(
            namespace,
            namespace_column,
            region,
            base_url,
            api_key,
            schema,
            id_column,
            vector_column,
            batch_size,
            distance_metric,
        )
        self.write_datasink(sink, ray_remote_args=ray_remote_args, concurrency=concurrency)
