"""Rows into a MongoDB collection, each once."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from heliostat.core.platform.extras import required
from heliostat.data import block, retries
from heliostat.data.sinks.datasink import WRITE_ID, Datasink, TaskContext
from heliostat.data.sources.mongo import WHO, collection_of, lost

if TYPE_CHECKING:
    import pyarrow as pa
    import pymongo

    from heliostat.data.aliases import Row


ROWS_AT_ONCE = 1000
_DUPLICATE = 11000  # MongoDB's number of an error


class MongoSink(Datasink[None]):
    """Inserts documents.

    Rows without the column "_id" get ids that follow from the write, the task and the row. So a task that is
    tried again, or that lost its connection in the middle, finds which of its documents are there already.
    """

    def __init__(self, uri: str, database: str, collection: str) -> None:
        required("pymongo", WHO)
        self._uri, self._database, self._collection = uri, database, collection
        self._began = int(time.time())

    def get_name(self) -> str:
        """Return what plans call it."""
        return "Mongo"

    def on_write_start(self, schema: pa.Schema | None = None) -> None:
        """Look whether the collection is there."""
        with collection_of(self._uri, self._database, self._collection):
            pass

    def write(self, blocks: Iterable[pa.Table], ctx: TaskContext) -> None:
        """Insert the rows of a task."""
        made = required("bson", WHO).ObjectId
        number = 0
        with collection_of(self._uri, self._database, self._collection) as there:
            for table in blocks:
                for rows in _portions(table):
                    ours = set()
                    for row in rows:
                        if row.get("_id") is None:
                            name = f"{ctx.kwargs.get(WRITE_ID)}/{ctx.task_idx}/{number}".encode()
                            digest = hashlib.sha256(name).digest()[:8]
                            row["_id"] = made(self._began.to_bytes(4, "big") + digest)
                            ours.add(row["_id"])
                        number += 1
                    retries.retried(
                        partial(_insert, there, rows, ours), "a write to MongoDB", lost()
                    )


def _portions(table: pa.Table) -> Iterable[list[Row]]:
    for at in range(0, table.num_rows, ROWS_AT_ONCE):
        rows = block.rows(table.slice(at, ROWS_AT_ONCE))
        yield [{name: _plain(value) for name, value in row.items()} for row in rows]


def _plain(value: object) -> object:
    """The value as pymongo stores it."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    return value.item() if isinstance(value, np.generic) else value


def _insert(there: pymongo.collection.Collection, rows: list[Row], ours: set[object]) -> None:
    """Insert documents, of which some may be there from an earlier attempt.

    Args:
        there: The collection.
        rows: The documents.
        ours: Ids that nobody else makes: such a document that is there is the same.

    Raises:
        pymongo.errors.BulkWriteError: There is another document of the same id, or the server refuses one.
    """
    refused = required("pymongo.errors", WHO).BulkWriteError
    try:
        there.insert_many(rows, ordered=False)
    except refused as error:
        faults = error.details.get("writeErrors", ())
        if not faults or any(fault["code"] != _DUPLICATE for fault in faults):
            raise
        twice = [row for fault in faults if (row := rows[fault["index"]])["_id"] not in ours]
        held = {row["_id"]: row for row in there.find({"_id": {"$in": [r["_id"] for r in twice]}})}
        if any(held.get(row["_id"]) != row for row in twice):
            raise
