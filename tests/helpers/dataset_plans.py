"""A dataset of every source and a plan of every operator, for tests of whole products.

An importable module, so that what the plans call reaches workers by name and plain pickle works.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import ray
import ray.data
from ray.data import Dataset
from ray.data.aggregate import Count
from ray.data.expressions import col

ROWS = 8


@dataclass(frozen=True)
class Source:
    """A way to make a dataset of eight rows, a column of it, and whether that can be compared."""

    make: Callable[[Path], Dataset]
    column: str
    is_keyed: bool = True


def frame() -> pd.DataFrame:
    return pd.DataFrame({"a": range(ROWS), "b": [f"s{i % 3}" for i in range(ROWS)]})


class Numbers:
    """A dataset of torch's."""

    def __len__(self) -> int:
        return ROWS

    def __getitem__(self, i: int) -> int:
        if i >= ROWS:
            raise IndexError(i)
        return i


class RowSource(ray.data.Datasource):
    """A source of the program's own."""

    def estimate_inmemory_data_size(self) -> int:
        return ROWS * 8

    def get_read_tasks(self, parallelism: int, *_: Any, **__: Any) -> list[Any]:
        from ray.data.block import BlockMetadata

        about = BlockMetadata(ROWS // 2, ROWS * 4, None, None)
        return [
            ray.data.ReadTask(partial(half, begin), about) for begin in range(0, ROWS, ROWS // 2)
        ]


def half(begin: int) -> list[Any]:
    return [pa.table({"a": list(range(begin, begin + ROWS // 2))})]


def _parquet(folder: Path) -> Dataset:
    for part in range(2):
        pq.write_table(pa.Table.from_pandas(frame()[part * 4 :][:4]), folder / f"{part}.parquet")
    return ray.data.read_parquet(str(folder))


def _csv(folder: Path) -> Dataset:
    frame().to_csv(folder / "x.csv", index=False)
    return ray.data.read_csv(str(folder))


def _json(folder: Path) -> Dataset:
    rows = frame().to_dict(orient="records")
    (folder / "x.json").write_text("\n".join(json.dumps(row) for row in rows))
    return ray.data.read_json(str(folder))


def _numpy(folder: Path) -> Dataset:
    np.save(folder / "x.npy", np.arange(ROWS))
    return ray.data.read_numpy(str(folder))


def _text(folder: Path) -> Dataset:
    (folder / "x.txt").write_text("\n".join(frame()["b"]))
    return ray.data.read_text(str(folder))


def _binary(folder: Path) -> Dataset:
    for i in range(ROWS):
        (folder / f"{i}.bin").write_bytes(bytes([i]))
    return ray.data.read_binary_files(str(folder))


def _images(folder: Path) -> Dataset:
    from PIL import Image

    for i in range(ROWS):
        Image.fromarray(np.full((2, 2, 3), i, np.uint8)).save(folder / f"{i}.png")
    return ray.data.read_images(str(folder))


def _sql(folder: Path) -> Dataset:
    connect = partial(sqlite3.connect, str(folder / "x.db"))
    connection = connect()
    frame().to_sql("t", connection, index=False)
    connection.close()
    return ray.data.read_sql("select * from t", connect)


def _refs(folder: Path) -> Dataset:
    return ray.data.from_arrow_refs([ray.put(pa.Table.from_pandas(frame()))])


SOURCES = {
    "range": Source(lambda _: ray.data.range(ROWS), "id"),
    "range_tensor": Source(lambda _: ray.data.range_tensor(ROWS, shape=(2, 2)), "data", False),
    "from_items": Source(lambda _: ray.data.from_items([{"a": i} for i in range(ROWS)]), "a"),
    "from_pandas": Source(lambda _: ray.data.from_pandas(frame()), "a"),
    "from_numpy": Source(lambda _: ray.data.from_numpy(np.ones((ROWS, 2))), "data", False),
    "from_arrow": Source(lambda _: ray.data.from_arrow(pa.Table.from_pandas(frame())), "b"),
    "from_arrow_refs": Source(_refs, "a"),
    "from_torch": Source(lambda _: ray.data.from_torch(Numbers()), "item"),
    "datasource": Source(lambda _: ray.data.read_datasource(RowSource()), "a"),
    "parquet": Source(_parquet, "a"),
    "csv": Source(_csv, "b"),
    "json": Source(_json, "a"),
    "numpy": Source(_numpy, "data"),
    "text": Source(_text, "text"),
    "binary": Source(_binary, "bytes"),
    "images": Source(_images, "image", False),
    "sql": Source(_sql, "a"),
}


def same(batch: Any) -> Any:
    return batch


def twice(row: Any) -> list[Any]:
    return [row, row]


def is_kept(row: Any) -> bool:
    return len(row) > 0


def count_of(frame: Any) -> Any:
    return [1] * len(frame)


def size_of(group: Any) -> dict[str, Any]:
    return {"size": np.array([len(next(iter(group.values())))])}


class Same:
    def __call__(self, batch: Any) -> Any:
        return batch


def _joined(dataset: Dataset, key: str) -> Dataset:
    return dataset.join(dataset, "inner", 2, on=(key,), left_suffix="_l", right_suffix="_r")


# operator: from a dataset and a column; those of ANY_COLUMN do with one that cannot be compared
ANY_COLUMN: dict[str, Callable[[Dataset, str], Dataset]] = {
    "nothing": lambda ds, _: ds,
    "map": lambda ds, _: ds.map(same),
    "map_batches": lambda ds, _: ds.map_batches(same, batch_format="pyarrow"),
    "map_batches of a class": lambda ds, _: ds.map_batches(
        Same, compute=ray.data.ActorPoolStrategy(size=1), num_cpus=0.1
    ),
    "flat_map": lambda ds, _: ds.flat_map(twice),
    "filter": lambda ds, _: ds.filter(is_kept),
    "filter by expression": lambda ds, c: ds.filter(expr=col(c).is_not_null()),
    "with_column": lambda ds, c: ds.with_column("z", col(c)),
    "add_column": lambda ds, _: ds.add_column("z", count_of),
    "drop_columns": lambda ds, c: ds.with_column("z", col(c)).drop_columns([c]),
    "select_columns": lambda ds, c: ds.select_columns([c]),
    "rename_columns": lambda ds, c: ds.rename_columns({c: "q"}),
    "limit": lambda ds, _: ds.limit(3),
    "random_sample": lambda ds, _: ds.random_sample(0.5, seed=1),
    "random_shuffle": lambda ds, _: ds.random_shuffle(seed=1),
    "randomize_block_order": lambda ds, _: ds.randomize_block_order(seed=1),
    "repartition": lambda ds, _: ds.repartition(3),
    "repartition to rows": lambda ds, _: ds.repartition(target_num_rows_per_block=3),
    "union": lambda ds, _: ds.union(ds.limit(2)),
    "zip": lambda ds, c: ds.zip(ds.rename_columns({c: "z"})),
}
KEYED: dict[str, Callable[[Dataset, str], Dataset]] = {
    "repartition by keys": lambda ds, c: ds.repartition(2, keys=[c]),
    "sort": lambda ds, c: ds.sort(c, descending=True),
    "count of groups": lambda ds, c: ds.groupby(c).count(),
    "aggregate of groups": lambda ds, c: ds.groupby(c).aggregate(Count()),
    "map_groups": lambda ds, c: ds.groupby(c).map_groups(size_of),
    "join": _joined,
}
OPERATORS = {**ANY_COLUMN, **KEYED}


def plans(source: Source, dataset: Dataset) -> dict[str, Dataset]:
    """The dataset with every operator that one of its columns allows."""
    given = OPERATORS if source.is_keyed else ANY_COLUMN
    return {name: make(dataset, source.column) for name, make in given.items()}


# states that a dataset can be in when it is sent
STATES: dict[str, Callable[[Dataset], Dataset]] = {
    "unread": lambda dataset: dataset,
    "partly read": lambda dataset: _begun(dataset),
    "read": lambda dataset: _ended(dataset),
    "materialized": lambda dataset: dataset.materialize(),
}


def _begun(dataset: Dataset) -> Dataset:
    next(iter(dataset.iter_rows()), None)
    return dataset


def _ended(dataset: Dataset) -> Dataset:
    dataset.schema()
    dataset.take_all()
    return dataset


def contents(dataset: Any) -> list[str]:
    """All rows, sorted, in a form that can be compared."""
    return sorted(
        repr({k: v.tolist() if hasattr(v, "tolist") else v for k, v in sorted(row.items())})
        for row in dataset.iter_rows()
    )
