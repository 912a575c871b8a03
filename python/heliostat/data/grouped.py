"""The result of ``Dataset.groupby``."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from heliostat.data import aggregate as aggregations
from heliostat.data import block
from heliostat.data.aggregation import checked
from heliostat.data.block import with_columns
from heliostat.data.dataset.options import CALL, CallOptions, takes
from heliostat.data.dataset.placement import Options
from heliostat.data.execute import groups
from heliostat.data.execute.exchanges import Sort
from heliostat.data.expressions import lit
from heliostat.data.plan.operators import Exchange, Map
from heliostat.data.plan.transforms import (
    MapStream,
    Names,
    Tables,
    Transform,
    joined_names,
    own_batch,
)
from heliostat.data.plan.udf import Opened, Udf
from heliostat.data.sources.options import spelled_methods

if TYPE_CHECKING:
    import pyarrow as pa
    from typing_extensions import Unpack

    from heliostat.data.aliases import Aggregation, Function
    from heliostat.data.dataset import Dataset
    from heliostat.data.dataset.transforms import Transforms
    from heliostat.data.expressions.expr import Expr


@dataclass
class _Aggregated:
    keys: list[str]
    aggregations: list[Aggregation]

    def __call__(self, table: pa.Table) -> Iterator[pa.Table]:
        yield groups.by_group(table, self.keys, self.aggregations)

    def reads(self, needed: Names) -> Names:
        """The keys, and what is aggregated."""
        return joined_names(frozenset(self.keys), aggregations.columns_of(self.aggregations))


@dataclass
class _Mapped:
    """The function of a group, for each group of a sorted table."""

    keys: list[str]
    udf: Udf
    batch_format: str | None
    zero_copy: bool

    def __call__(self, table: pa.Table) -> Iterator[pa.Table]:
        if table.num_rows:
            yield from self.results(iter([table]), self.udf.open())

    def results(self, tables: Tables, fn: Opened) -> Iterator[pa.Table]:
        """Yield the results of the function for the groups of each table."""
        for _, result in fn.each(self._groups(tables, fn)):
            for item in result if isinstance(result, Iterator) else (result,):
                yield block.from_batch(item, fn.name)

    def _groups(self, tables: Tables, fn: Opened) -> Iterator[pa.Table]:
        for table in tables:
            begins = _begins(table, self.keys)
            for begin, end in zip(begins, [*begins[1:], table.num_rows], strict=True):
                group = block.joined(table.slice(begin, end - begin))
                keys = group.slice(0, 1).select(self.keys).to_pylist() if self.keys else None
                fn.at = f"the group {keys[0]}" if keys else "all rows"
                batch = block.to_batch(group, self.batch_format)
                yield batch if self.zero_copy else own_batch(batch)


def _begins(table: pa.Table, keys: list[str]) -> list[int]:
    """The rows at which the groups of a sorted table begin."""
    return groups.group_begins(table, keys) if keys else [0]


PACKED = "groups"  # the column of packed groups
PACKED_BYTES = 1 << 20


@dataclass
class _Packed:
    """A sorted table as rows that each hold whole groups, for tasks or actors of their own.

    Blocks are cut between rows, so none has only a part of a group.
    """

    keys: list[str]

    def __call__(self, table: pa.Table) -> Iterator[pa.Table]:
        import pyarrow as pa

        if not table.num_rows:
            return
        least = max(1, PACKED_BYTES * table.num_rows // max(1, table.nbytes))
        cuts = [0]
        for begin in _begins(table, self.keys):
            if begin - cuts[-1] >= least:
                cuts.append(begin)
        for begin, end in zip(cuts, [*cuts[1:], table.num_rows], strict=True):
            part = pickle.dumps(block.compact(table.slice(begin, end - begin)), protocol=5)
            yield pa.table({PACKED: pa.array([part], pa.large_binary())})


@dataclass
class _Unpacked(Transform):
    """The function of a group, for packed groups."""

    mapped: _Mapped

    def __post_init__(self) -> None:
        self.udf = self.mapped.udf
        self.name = f"MapGroups({self.udf.name})"

    def apply(self, tables: Tables, fn: Any) -> Tables:
        """Call the function for each group."""
        parts = (
            pickle.loads(part.as_buffer())
            for table in tables
            if table.num_rows
            for part in table.column(PACKED)
        )
        return self.mapped.results(parts, fn)


@dataclass
class _WithColumn:
    column: str
    expr: Expr

    def __call__(self, group: pa.Table) -> pa.Table:
        return with_columns(group, {self.column: self.expr.column(group)})


_ALL = "__all_rows__"  # the key of `groupby(None)`, the same in all rows


@dataclass
class _Whole:
    """The step behind a sort of all rows by the key that they share."""

    after: Callable[[pa.Table], pa.Table]

    def __call__(self, table: pa.Table) -> Iterator[pa.Table]:
        yield from self.after(table.drop_columns([_ALL]) if table.num_columns else table)


@spelled_methods("GroupedData")
class GroupedData:
    """Rows grouped by columns, made by ``Dataset.groupby``; groups come out sorted by their keys.

    Args:
        dataset: The rows.
        keys: The columns; none: all rows are one group.
        num_partitions: Tasks that group. Default: by the data.

    Examples:
        >>> import ray
        >>> rows = [{"kind": "a", "size": 1}, {"kind": "b", "size": 5}, {"kind": "a", "size": 3}]
        >>> grouped = ray.data.from_items(rows).groupby("kind")
        >>> grouped.sum("size").take_all()
        [{'kind': 'a', 'sum(size)': 4}, {'kind': 'b', 'sum(size)': 5}]
        >>> largest = grouped.map_groups(lambda g: {"kind": g["kind"][:1], "largest": [g["size"].max()]})
        >>> largest.take_all()
        [{'kind': 'a', 'largest': 3}, {'kind': 'b', 'largest': 5}]
    """

    def __init__(self, dataset: Transforms, keys: list[str], num_partitions: int | None) -> None:
        self._dataset, self._keys, self._partitions = dataset, keys, num_partitions

    def __repr__(self) -> str:
        key = self._keys[0] if len(self._keys) == 1 else self._keys or None
        return f"GroupedData(dataset={self._dataset!r}, key={key!r})"

    def aggregate(self, *aggs: Aggregation) -> Dataset:
        """Return one row for each group: its keys, and a column for each aggregation.

        Args:
            *aggs: Aggregations of ``ray.data.aggregate``.

        Raises:
            ValueError: There is none.
            TypeError: One is not an aggregation.

        Examples:
            >>> import ray
            >>> from ray.data.aggregate import Count
            >>> ray.data.from_items([1, 1, 2]).groupby("item").aggregate(Count()).take_all()
            [{'item': 1, 'count()': 2}, {'item': 2, 'count()': 1}]
        """
        checked(aggs)
        if not self._keys or not all(map(aggregations.has_parts, aggs)):
            return self._sorted("Aggregate", _Aggregated(self._keys, list(aggs)))
        keys, several = self._keys, list(aggs)
        parts = Map(self._dataset._plan, MapStream(groups.Parts(keys, several), "AggregateParts"))
        run = Sort(
            [(key, "ascending") for key in keys],
            self._partitions,
            before=groups.Joined(keys, several),
            after=groups.Finished(keys, several),
            by_size=True,
        )
        return self._dataset._derive(Exchange((parts,), "Aggregate", run))

    def _sorted(self, label: str, after: Callable[[pa.Table], pa.Table]) -> Dataset:
        dataset, keys, blocks = self._dataset, self._keys, self._partitions
        if not keys:
            dataset, keys, blocks = dataset.with_column(_ALL, lit(0)), [_ALL], 1
            after = _Whole(after)
        run = Sort([(key, "ascending") for key in keys], blocks, after=after)
        return dataset._derive(Exchange((dataset._plan,), label, run))

    @takes(CALL, batch_format="compute")
    def map_groups(
        self,
        fn: Function,
        *,
        zero_copy_batch: bool = True,
        batch_format: str | None = "default",
        **options: Unpack[CallOptions],
    ) -> Dataset:
        """Return a dataset of what ``fn(group)`` gives for each group, a batch.

        Without options a function is called in the tasks that sort the groups; with options, or as a
        class, it has tasks or actors of its own.

        Args:
            fn: A function, or a class whose instances are called, one per actor. It returns a batch: a dict
                of arrays or lists, a DataFrame or a table.
            zero_copy_batch: ``fn`` does not write to the group.
            batch_format: Of a group, as in ``Dataset.map_batches``.

        Examples:
            >>> import ray
            >>> ds = ray.data.from_items([{"k": "a", "v": 1}, {"k": "a", "v": 3}, {"k": "b", "v": 2}])
            >>> def span(group):
            ...     return {"k": group["k"][:1], "span": [group["v"].max() - group["v"].min()]}
            >>> ds.groupby("k").map_groups(span).take_all()
            [{'k': 'a', 'span': 2}, {'k': 'b', 'span': 0}]
        """
        block.check_format(batch_format)
        made = Options.of(options)
        udf = made.udf(fn)
        mapped = _Mapped(self._keys, udf, batch_format, zero_copy_batch)
        if not made.says_where and not udf.is_class:
            return self._sorted(f"MapGroups({udf.name})", mapped)
        packed = self._sorted("Groups", _Packed(self._keys))
        step = _Unpacked(mapped)
        return packed._derive(made.step(packed._plan, step, udf.name, is_class=udf.is_class))

    def with_column(self, column_name: str, expr: Expr, **ray_remote_args: Any) -> Dataset:
        """Return all rows with a column more: an expression, evaluated for each group.

        Args:
            column_name: The column.
            expr: The expression.
            **ray_remote_args: Options of :meth:`map_groups`.
        """
        made = _WithColumn(column_name, expr)
        return self.map_groups(made, batch_format="pyarrow", **ray_remote_args)

    def _of(
        self, kind: Callable[..., Aggregation], on: str | list[str] | None, **options: object
    ) -> Dataset:
        columns = [on] if isinstance(on, str) else on
        if columns is None:
            schema = self._dataset._arrow_schema()
            columns = [
                n for n in (schema.names if schema is not None else []) if n not in self._keys
            ]
        return self.aggregate(*(kind(column, **options) for column in columns))

    def count(self) -> Dataset:
        """Return the number of rows of each group: "count()".

        Examples:
            >>> import ray
            >>> ray.data.from_items([1, 1, 2]).groupby("item").count().take_all()
            [{'item': 1, 'count()': 2}, {'item': 2, 'count()': 1}]
        """
        return self.aggregate(aggregations.Count())

    def sum(self, on: str | list[str] | None = None, ignore_nulls: bool = True) -> Dataset:
        """Return the sum of columns for each group (default: all).

        Args:
            on: A column, or several. Default: all.
            ignore_nulls: Leave missing values out. Default True; False: one of them makes the result
                ``None``.
        """
        return self._of(aggregations.Sum, on, ignore_nulls=ignore_nulls)

    def min(self, on: str | list[str] | None = None, ignore_nulls: bool = True) -> Dataset:
        """Return the least value of columns for each group (default: all).

        Args:
            on: A column, or several. Default: all.
            ignore_nulls: Leave missing values out. Default True; False: one of them makes the result
                ``None``.
        """
        return self._of(aggregations.Min, on, ignore_nulls=ignore_nulls)

    def max(self, on: str | list[str] | None = None, ignore_nulls: bool = True) -> Dataset:
        """Return the greatest value of columns for each group (default: all).

        Args:
            on: A column, or several. Default: all.
            ignore_nulls: Leave missing values out. Default True; False: one of them makes the result
                ``None``.
        """
        return self._of(aggregations.Max, on, ignore_nulls=ignore_nulls)

    def mean(self, on: str | list[str] | None = None, ignore_nulls: bool = True) -> Dataset:
        """Return the average of columns for each group (default: all).

        Args:
            on: A column, or several. Default: all.
            ignore_nulls: Leave missing values out. Default True; False: one of them makes the result
                ``None``.

        Examples:
            >>> import ray
            >>> ds = ray.data.from_items([{"k": "a", "v": 1}, {"k": "a", "v": 3}])
            >>> ds.groupby("k").mean("v").take_all()
            [{'k': 'a', 'mean(v)': 2.0}]
        """
        return self._of(aggregations.Mean, on, ignore_nulls=ignore_nulls)

    def std(
        self, on: str | list[str] | None = None, ddof: int = 1, ignore_nulls: bool = True
    ) -> Dataset:
        """Return the standard deviation of columns for each group (default: all).

        Args:
            on: A column, or several. Default: all.
            ddof: Degrees of freedom taken off the count. Default 1.
            ignore_nulls: Leave missing values out. Default True; False: one of them makes the result
                ``None``.
        """
        return self._of(aggregations.Std, on, ddof=ddof, ignore_nulls=ignore_nulls)
