"""Tables of what an aggregation gives."""

from __future__ import annotations

from typing import Any

import pyarrow as pa


class Schema:
    def __init__(self, fields: dict[str, Any]) -> None:
        self.fields = fields


def aggregate_arrow_all(
    collection: Any, pipeline: list[dict[str, Any]], *, schema: Any = None, **options: Any
) -> pa.Table:
    assert set(options) <= {"allowDiskUse", "batchSize", "maxTimeMS"}, options
    rows = list(collection.aggregate(pipeline))
    for row in rows:
        if hasattr(row.get("_id"), "binary"):
            row["_id"] = row["_id"].binary
    if schema is None:
        return pa.Table.from_pylist(rows)
    return pa.Table.from_pylist(rows, pa.schema(schema.fields))
