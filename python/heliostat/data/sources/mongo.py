"""Documents of a MongoDB collection, by the packages ``pymongo`` and ``pymongoarrow``."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from heliostat.core.platform.extras import required
from heliostat.data import retries
from heliostat.data.block import BlockMetadata
from heliostat.data.dataset import Dataset
from heliostat.data.sources.datasource import Datasource, ReadTask, dataset_of
from heliostat.data.sources.options import OF_TASKS, shows, spelled

if TYPE_CHECKING:
    import pyarrow as pa
    import pymongo

    from heliostat.data.context import DataContext


WHO = "Collections of MongoDB"
# Stages that look at one document at a time, so that each part of a collection can go through them alone.
_BY_DOCUMENT = (
    "$addFields",
    "$lookup",
    "$match",
    "$project",
    "$redact",
    "$replaceRoot",
    "$replaceWith",
    "$set",
    "$unset",
    "$unwind",
)
Stage = dict[str, object]


@spelled
@shows(OF_TASKS, "mongo_args")
def read_mongo(
    uri: str,
    database: str,
    collection: str,
    *,
    pipeline: list[Stage] | None = None,
    schema: pa.Schema | None = None,
    **options: object,
) -> Dataset:
    """Return a dataset of the documents of a MongoDB collection.

    They are read in tasks of about as many documents each, by ``_id``; in one task if the pipeline has a
    stage that looks at several documents at a time, such as ``$group`` or ``$limit``.

    Args:
        uri: Of the server, such as "mongodb://user:password@host:27017/?authSource=admin".
        database: The name of the database.
        collection: The name of the collection.
        pipeline: Stages of an aggregation that the documents go through. Default: none.
        schema: The ``pymongoarrow.api.Schema`` of what comes out. Default: it is found out.
        **options: Those of :func:`read_datasource`; others go to ``pymongoarrow.api.aggregate_arrow_all``,
            such as ``allowDiskUse``.

    Raises:
        ImportError: pymongo or pymongoarrow is not installed.
        ValueError: There is no such database or collection; while executing.
        pymongo.errors.PyMongoError: The server cannot be reached, or refuses; while executing.

    Examples:
        >>> import ray
        >>> def orders():
        ...     return ray.data.read_mongo(
        ...         "mongodb://reader:secret@mongo:27017/?authSource=admin",
        ...         "shop",
        ...         "orders",
        ...         pipeline=[{"$match": {"total": {"$gte": 100}}}],
        ...     )
    """
    for module in ("pymongo", "pymongoarrow"):
        required(module, WHO)
    theirs = {k: options.pop(k) for k in list(options) if k in _OF_AGGREGATE}
    source = _Mongo(uri, database, collection, list(pipeline or ()), schema, theirs)
    known = ("uri", "database", "collection", "pipeline", "schema", *_OF_AGGREGATE)
    return dataset_of(source, "read_mongo", options, known)


_OF_AGGREGATE = (
    "allowDiskUse",
    "auto_convert",
    "batchSize",
    "bypassDocumentValidation",
    "collation",
    "comment",
    "hint",
    "let",
    "maxTimeMS",
    "session",
)


def lost() -> tuple[type[BaseException], ...]:
    """The errors of a connection that broke, after which one tries again."""
    return (required("pymongo.errors", WHO).AutoReconnect,)


@contextlib.contextmanager
def collection_of(
    uri: str, database: str, collection: str
) -> Iterator[pymongo.collection.Collection]:
    """A collection that is there.

    Raises:
        ValueError: It is not.
    """
    with required("pymongo", WHO).MongoClient(uri) as client:
        for what, name, names in (
            ("database", database, client.list_database_names),
            ("collection", collection, client[database].list_collection_names),
        ):
            there = sorted(names())
            if name not in there:
                where = "" if what == "database" else f" of the database {database!r}"
                raise ValueError(
                    f"MongoDB: the {what} {name} doesn't exist{where}; there are {there}."
                )
        yield client[database][collection]


@dataclass(frozen=True)
class _Mongo(Datasource):
    uri: str
    database: str
    collection: str
    pipeline: list[Stage]
    schema: pa.Schema
    options: dict[str, object]

    def get_name(self) -> str:
        return "Mongo"

    def get_read_tasks(
        self,
        parallelism: int,
        per_task_row_limit: int | None = None,
        data_context: DataContext | None = None,
    ) -> list[ReadTask]:
        with collection_of(self.uri, self.database, self.collection) as there:
            if not all(name in _BY_DOCUMENT for stage in self.pipeline for name in stage):
                parts: list[tuple[Stage | None, int]] = [(None, -1)]
            else:
                parts = self._parts(there, parallelism)
            size = there.database.command("collStats", self.collection).get("avgObjSize", 0)
        whole = any("$match" in stage or "$unwind" in stage for stage in self.pipeline[1:])
        return [
            ReadTask(
                _Part(self, where),
                BlockMetadata(
                    None if rows < 0 or whole else rows, None if rows < 0 else int(rows * size)
                ),
                None,
                per_task_row_limit,
            )
            for where, rows in parts
        ]

    def _parts(
        self, there: pymongo.collection.Collection, count: int
    ) -> list[tuple[Stage | None, int]]:
        """(which ids, how many documents) of parts of about one size."""
        first = self.pipeline[0] if self.pipeline else {}
        matched = [{"$match": first["$match"]}] if "$match" in first else []
        buckets = list(
            there.aggregate(
                [*matched, {"$bucketAuto": {"groupBy": "$_id", "buckets": count}}],
                allowDiskUse=True,
            )
        )
        found: list[tuple[Stage | None, int]] = []
        for number, one in enumerate(buckets):
            until = "$lte" if number == len(buckets) - 1 else "$lt"
            between = {"$gte": one["_id"]["min"], until: one["_id"]["max"]}
            found.append(({"_id": between}, one["count"]))
        return found


@dataclass(frozen=True)
class _Part:
    """Reads some documents in a task; they are given when all are there, so that it can begin anew."""

    source: _Mongo
    where: Stage | None

    def __call__(self) -> Iterator[pa.Table]:
        yield retries.retried(self._read, "a read from MongoDB", lost())

    def _read(self) -> pa.Table:
        source = self.source
        stages = list(source.pipeline)
        if self.where is not None:
            # In one stage with the first: some conditions, such as $text, may only be there.
            first = stages.pop(0) if stages and list(stages[0]) == ["$match"] else None
            where = {"$and": [self.where, first["$match"]]} if first else self.where
            stages.insert(0, {"$match": where})
        read = required("pymongoarrow.api", WHO).aggregate_arrow_all
        with required("pymongo", WHO).MongoClient(source.uri) as client:
            there = client[source.database][source.collection]
            return read(there, stages, schema=source.schema, **source.options)
