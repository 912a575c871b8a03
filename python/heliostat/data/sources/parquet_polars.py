"""Rows of Parquet files that meet a condition, read by Polars where it is installed.

Polars decodes of a column only the rows that are left, where pyarrow decodes all of them and takes some.
What it is asked for is a superset: NaN, for one, is greater than all numbers there. The rows are therefore
judged once more by the conditions themselves. Columns, conditions and files that the two libraries may take
differently are pyarrow's alone.
"""

from __future__ import annotations

import datetime
import functools
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from heliostat.data import ordering
from heliostat.data.expressions import fields
from heliostat.data.expressions.expr import AliasExpr, Call, ColumnExpr, Expr, LiteralExpr

if TYPE_CHECKING:
    from types import ModuleType

    import polars as pl
    import pyarrow.parquet as pq

    from heliostat.data.aliases import Function, Value


# Bytes of row groups that a process reads with pyarrow first: it takes 0.2 s of CPU to import Polars.
BYTES_BEFORE_IMPORT = 128 << 20
ROWS_MIN = 50_000  # of a row group; below, to plan the query takes longer
OTHERS_MIN = 2  # columns beside those of the conditions; of fewer, pyarrow is as fast
WHOLE_MAX = 2**24  # integers up to it are the same number as a float of either width

_COMPARISONS: dict[Function, Function] = {
    pc.less: operator.lt,
    pc.less_equal: operator.le,
    pc.greater: operator.gt,
    pc.greater_equal: operator.ge,
    pc.equal: operator.eq,
    pc.not_equal: operator.ne,
}
_read_bytes = 0  # of row groups with conditions, by this process


def met(
    path: str, file: pq.ParquetFile, group: int, names: list[str], conditions: tuple[Expr, ...]
) -> pa.Table | None:
    """A row group's columns, about without the rows that do not meet the conditions; None: ask pyarrow.

    Args:
        path: The file, on this machine.
        file: The same, opened.
        group: The row group's number.
        names: The columns, those of the conditions among them.
        conditions: The conditions.
    """
    about = file.metadata.row_group(group)
    schema = file.schema_arrow
    others = set(names).difference(*(condition.columns() or () for condition in conditions))
    if about.num_rows < ROWS_MIN or len(others) < OTHERS_MIN:
        return None
    if not all(_is_plain(schema, name) for name in names):
        return None
    polars = _library(about.total_byte_size)
    if polars is None:
        return None
    asked = [_query(polars, condition, schema) for condition in conditions]
    if any(query is None for query in asked):
        return None
    begin = sum(file.metadata.row_group(number).num_rows for number in range(group))
    # Row groups are chosen already, by statistics that know of NaN.
    options = {"use_statistics": False, "glob": False, "hive_partitioning": False}
    rows = polars.scan_parquet(path, **options).slice(begin, about.num_rows)
    try:
        found = rows.filter(*asked).select(names).collect(engine="streaming")
    except polars.exceptions.PolarsError:  # of a file that only pyarrow reads, or that nobody does
        return None
    kinds = [schema.field(name) for name in names]
    return found.rechunk().to_arrow().cast(pa.schema(kinds, schema.metadata))


def _library(size: int) -> ModuleType | None:
    """Polars, once a process has read so much that it is worth its import."""
    global _read_bytes
    _read_bytes += size
    return ordering.polars() if _read_bytes > BYTES_BEFORE_IMPORT else None


def _is_plain(schema: pa.Schema, name: str) -> bool:
    """Whether both libraries read the same from a column, and its name is not a pattern to Polars."""
    if name == "*" or name.startswith("^") or len(schema.get_all_field_indices(name)) != 1:
        return False
    kind, t = schema.field(name).type, pa.types
    tests = (t.is_integer, t.is_boolean, t.is_string, t.is_large_string, t.is_date32)
    return (
        any(test(kind) for test in tests)
        or kind in (pa.float32(), pa.float64())
        or (t.is_timestamp(kind) and kind.unit != "s")
    )


def _query(polars: ModuleType, condition: Expr, schema: pa.Schema) -> pl.Expr | None:
    """An expression that is true of all rows that meet the condition, and cannot fail; None: unknown."""
    if isinstance(condition, AliasExpr):
        return _query(polars, condition.operands[0], schema)
    if isinstance(condition, ColumnExpr):
        is_known = schema.field(condition.name).type == pa.bool_()
        return polars.col(condition.name) if is_known else None
    if not isinstance(condition, Call):
        return None
    function, operands = condition.function, condition.operands
    if function in (pc.and_kleene, pc.or_kleene):
        both = [_query(polars, one, schema) for one in operands]
        join = operator.and_ if function is pc.and_kleene else operator.or_
        return None if any(query is None for query in both) else join(*both)
    left = operands[0]
    if function in _COMPARISONS:
        right = operands[1]
        if isinstance(left, ColumnExpr) and isinstance(right, LiteralExpr):
            values = _values(polars, [right.value], schema.field(left.name).type)
            return None if values is None else _compared(polars, function, left.name, values)
        return None
    if not isinstance(left, ColumnExpr) or condition.kwargs:
        return None
    column = polars.col(left.name)
    if function in (pc.is_null, pc.is_valid):
        return column.is_null() if function is pc.is_null else column.is_not_null()
    if function is fields.is_in:
        values = _values(polars, condition.args[0], schema.field(left.name).type)
        return None if values is None else column.is_in(values.implode())
    return None


def _compared(polars: ModuleType, function: Function, name: str, values: pl.Series) -> pl.Expr:
    sign: Callable[[object, object], pl.Expr] = _COMPARISONS[function]
    return sign(polars.col(name), polars.lit(values[0], dtype=values.dtype))


def _values(polars: ModuleType, values: list[Value], kind: pa.DataType) -> pl.Series | None:
    """Constants that both libraries compare alike with a column of the type; None: they may not."""
    types = set(map(type, values))
    t = pa.types
    if types == {int}:
        if t.is_floating(kind):
            if all(-WHOLE_MAX <= value <= WHOLE_MAX for value in values):
                return polars.Series(values, dtype=polars.Float64)
        elif t.is_integer(kind) and kind != pa.uint64() and _fit(tuple(values), kind):
            return polars.Series(values, dtype=polars.Int64)
    elif types == {float}:
        if t.is_floating(kind) and all(value == value for value in values):
            return polars.Series(values, dtype=polars.Float64)
    elif types == {str}:
        if t.is_string(kind) or t.is_large_string(kind):
            return polars.Series(values, dtype=polars.String)
    elif types == {datetime.date} and t.is_date32(kind):
        return polars.Series(values, dtype=polars.Date)
    return None


@functools.lru_cache(maxsize=64)
def _fit(values: tuple[int, ...], kind: pa.DataType) -> bool:
    """Whether integers are of the type."""
    try:
        pa.array(values, kind)
    except (pa.ArrowInvalid, OverflowError):
        return False
    return True
