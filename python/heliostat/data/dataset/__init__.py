"""``Dataset``: lazy, streamed, its methods in one file for each kind."""

from __future__ import annotations

import pickle
from html import escape
from typing import Any

import heliostat as ray
from heliostat.data import block
from heliostat.data.dataset import preview
from heliostat.data.dataset.columns import Columns
from heliostat.data.dataset.combine import Combine
from heliostat.data.dataset.consume import Consume
from heliostat.data.dataset.maps import Maps
from heliostat.data.dataset.reorder import Reorder
from heliostat.data.dataset.schema import Schema
from heliostat.data.dataset.splits import Splits
from heliostat.data.dataset.summarize import Summarize
from heliostat.data.dataset.write_stores import WriteStores
from heliostat.data.plan import analysis
from heliostat.data.plan.operators import InputBlocks

__all__ = ["Dataset", "MaterializedDataset", "Schema"]


class Dataset(Maps, Columns, Reorder, Combine, Summarize, Splits, Consume, WriteStores):
    """Rows in named columns, in blocks that are made when they are needed.

    Made by ``from_...``, ``read_...`` and ``range``; transformations give new datasets and run nothing.
    What consumes a dataset executes it as a stream, within a part of the object store's memory.

    Examples:
        >>> import ray
        >>> ds = ray.data.range(6).map(lambda row: {"n": row["id"] * 2})
        >>> ds.filter(expr=ray.data.expressions.col("n") > 4).take_all()
        [{'n': 6}, {'n': 8}, {'n': 10}]
    """

    def copy(self, dataset: Dataset | None = None) -> Dataset:
        """Return a dataset of the same plan and settings.

        Args:
            dataset: What is copied. Default: this one.
        """
        source = dataset if dataset is not None else self
        return type(source)(source._plan, source._context.copy())

    def set_name(self, name: str | None) -> None:
        """Set what progress and statistics call it.

        Args:
            name: The name; ``None``: none.
        """
        self._name = name

    @property
    def name(self) -> str | None:
        """The name of the dataset in progress and statistics."""
        return self._name

    def get_dataset_id(self) -> str:
        """Return a name that no other dataset of this process has."""
        return self._id

    def has_serializable_lineage(self) -> bool:
        """Return whether :meth:`serialize_lineage` works: no blocks are of this cluster alone."""
        return not analysis.blocks(self._plan)

    def serialize_lineage(self) -> bytes:
        """Return the plan and settings as bytes, good for another cluster too.

        Raises:
            ValueError: The dataset begins with blocks in this cluster's object store.
        """
        if not self.has_serializable_lineage():
            raise ValueError(
                "This dataset begins with blocks in the object store, which do not outlive the "
                "cluster: make it with read_...() or range() instead of from_...()."
            )
        data: bytes = ray.cloudpickle.dumps((self._plan, self._context))
        return data

    @staticmethod
    def deserialize_lineage(serialized_ds: bytes) -> Dataset:
        """Return the dataset of :meth:`serialize_lineage`.

        Args:
            serialized_ds: The bytes. Only those that you trust: they are a pickle.
        """
        return Dataset(*pickle.loads(serialized_ds))

    def __len__(self) -> int:
        raise AttributeError(
            "Use `ds.count()` to compute the length of a distributed Dataset. "
            "This may be an expensive operation."
        )

    def __bool__(self) -> bool:
        return True  # so that `if dataset:` asks whether there is one

    def __iter__(self) -> Any:
        raise TypeError(
            "`Dataset` objects aren't iterable. To iterate records, call `ds.iter_rows()` or "
            "`ds.iter_batches()`. For more information, read "
            "https://docs.ray.io/en/latest/data/iterating-over-data.html."
        )

    def __repr__(self) -> str:
        schema = self._schema if self._schema_known else analysis.schema(self._plan)
        if schema is None or not len(schema):
            return preview.chain(self._plan, self._name)
        return preview.text(schema, analysis.rows(self._plan), None, None)

    __str__ = __repr__

    def _repr_html_(self) -> str:
        """How a notebook shows it; nothing is executed for it."""
        schema = self._schema if self._schema_known else analysis.schema(self._plan)
        if schema is None or not len(schema):
            return f"<pre>{escape(repr(self))}</pre>"
        return preview.table(type(self).__name__, schema, analysis.rows(self._plan), self._shown())

    def _shown(self) -> list[Any]:
        """The rows that there are to show."""
        return []


class MaterializedDataset(Dataset):
    """A dataset whose blocks are in the object store."""

    _is_materialized = True

    def __repr__(self) -> str:
        assert isinstance(self._plan, InputBlocks)
        schema, rows = analysis.schema(self._plan), analysis.rows(self._plan) or 0
        if schema is None or not len(schema):
            return f"MaterializedDataset(num_rows={rows}, schema=Unknown schema)"
        if rows <= preview.ROWS_MAX:
            return preview.text(schema, rows, self._edge(rows, False), None)
        first, last = self._edge(preview.EDGE, False), self._edge(preview.EDGE, True)
        return preview.text(schema, rows, first, last)

    __str__ = __repr__

    def _shown(self) -> list[Any]:
        return self._edge(preview.ROWS_MAX, False)

    def _edge(self, count: int, from_end: bool) -> list[Any]:
        """The first or the last rows."""
        assert isinstance(self._plan, InputBlocks)
        found: list[Any] = []
        for bundle in reversed(self._plan.bundles) if from_end else self._plan.bundles:
            want = min(count - len(found), bundle.rows)
            if want <= 0:
                continue
            part = bundle.slice(bundle.rows - want if from_end else 0, want)
            rows = list(block.rows(part.cut(ray.get(part.ref))))
            found = rows + found if from_end else found + rows
        return found
