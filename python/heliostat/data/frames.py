"""DataFrames: blocks made of them, and made into them again."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pyarrow as pa

from heliostat.core.platform.extras import required
from heliostat.data import tensors
from heliostat.data.context import DataContext

if TYPE_CHECKING:
    import pandas as pd


FRAME_TYPE = b"heliostat.frame_type"  # of a field: the type that its column had in a DataFrame
TEXT_BYTES_MAX = 1 << 31  # of a column of "string", whose offsets have 32 bits


def from_pandas(frame: pd.DataFrame) -> pa.Table:
    """A table of a DataFrame; its index is left out, columns of arrays become tensors."""
    columns = {}
    for name in frame.columns:
        series = frame[name]
        if series.dtype == object:
            missing = series.isna()
            values = series.where(~missing, None) if missing.any() else series
            columns[str(name)] = tensors.from_list(values.tolist())
        else:
            columns[str(name)] = _from_series(series)
    return pa.table(columns)


def of_frame(frame: pd.DataFrame) -> pa.Table:
    """The table of :func:`from_pandas`, whose columns become again what they were in the frame."""
    table = from_pandas(frame)
    marked = [
        about.with_metadata({FRAME_TYPE: str(kind).encode()})
        for about, kind in zip(table.schema, frame.dtypes, strict=True)
    ]
    return pa.Table.from_arrays(table.columns, schema=pa.schema(marked)) if marked else table


def without_marks(table: pa.Table) -> pa.Table:
    """The table without the marks of :func:`of_frame`, which files and other programs have no use for."""
    if not any(_framed(about) for about in table.schema):
        return table
    plain = [about.remove_metadata() for about in table.schema]
    schema = pa.schema(plain, table.schema.metadata)
    return pa.Table.from_arrays(table.columns, schema=schema)


def _from_series(series: pd.Series) -> pa.Array:
    try:
        if type(series.dtype).__name__ == "TensorDtype":
            return series.array.__arrow_array__()
        return _with_short_text(pa.Array.from_pandas(series))
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
        return tensors.from_list(series.tolist())  # complex numbers, and others of numpy's alone


def _with_short_text(column: pa.ChunkedArray) -> pa.Array:
    """The column with text as "string" rather than "large_string", where it fits."""
    kind = column.type
    if pa.types.is_dictionary(kind) and pa.types.is_large_string(kind.value_type):
        short = pa.dictionary(kind.index_type, pa.string(), kind.ordered)
    elif pa.types.is_large_string(kind):
        short = pa.string()
    else:
        return column
    return column.cast(short) if column.nbytes < TEXT_BYTES_MAX else column


def to_pandas(table: pa.Table, context: DataContext | None = None) -> pd.DataFrame:
    """A DataFrame; tensors are columns of arrays.

    Columns keep their Arrow type ("int64[pyarrow]"), which holds missing values without turning
    integers into floats. Those that :func:`of_frame` made keep the type that they had in the frame.

    Args:
        context: Whose ``enable_arrow_backed_pandas_conversion`` counts: false gives numpy's types.
            Default: the current one.
    """
    pd = required("pandas", "DataFrames")
    settings = context or DataContext.get_current()
    mapped = _arrow_backed if settings.enable_arrow_backed_pandas_conversion else None
    if not any(_is_special(f) or _framed(f) for f in table.schema):
        return table.to_pandas(types_mapper=mapped)

    columns = {f.name: _series(table.column(f.name), f, mapped) for f in table.schema}
    return pd.DataFrame(columns, columns=table.column_names)


def hint(error: Exception, value: object) -> str:
    """Advice to ask for numpy's types, where a function failed since Arrow lacks an operator."""
    if not isinstance(error, NotImplementedError) or not hasattr(value, "dtypes"):
        return ""
    arrow = [str(name) for name, kind in value.dtypes.items() if hasattr(kind, "pyarrow_dtype")]
    if not arrow:
        return ""
    return (
        f" (the columns {arrow} are Arrow-backed, which pandas has fewer operators for: "
        "`DataContext.get_current().enable_arrow_backed_pandas_conversion = False` before the dataset "
        'is made gives numpy\'s types, and batch_format="numpy" arrays)'
    )


def _series(
    column: pa.ChunkedArray, about: pa.Field, mapped: Callable[[pa.DataType], object] | None
) -> pd.Series:
    pd = required("pandas", "DataFrames")

    before = _framed(about)
    if _is_special(about) or before == "object":
        return pd.Series(tensors.to_list(column), dtype=object)
    if before is None:
        return column.to_pandas(types_mapper=mapped)
    kind = pd.api.types.pandas_dtype(before)
    extended = hasattr(kind, "__from_arrow__") and not isinstance(kind, pd.CategoricalDtype)
    return column.to_pandas(types_mapper=(lambda _: kind) if extended else None)


def _is_special(about: pa.Field) -> bool:
    return isinstance(about.type, pa.BaseExtensionType)


def _framed(about: pa.Field) -> str | None:
    """The type that a column had in the DataFrame it comes from."""
    found = (about.metadata or {}).get(FRAME_TYPE)
    return None if found is None else found.decode()


def _arrow_backed(kind: pa.DataType) -> pd.ArrowDtype | None:
    """The Arrow-backed type of pandas; None: pandas' own for values of this Arrow type."""
    pd = required("pandas", "DataFrames")

    own = pa.types.is_dictionary(kind) or pa.types.is_null(kind)
    return None if own or isinstance(kind, pa.BaseExtensionType) else pd.ArrowDtype(kind)
