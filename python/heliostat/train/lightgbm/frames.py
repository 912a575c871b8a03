"""Pandas frames as LightGBM takes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from heliostat.core.platform.extras import required

if TYPE_CHECKING:
    import pandas as pd


def normalize_pandas_for_lightgbm(df: pd.DataFrame) -> pd.DataFrame:
    """Return ``df`` with numbers and booleans that are backed by Arrow as pandas' own types.

    LightGBM refuses the former. Columns of other types stay as they are, and are not copied.

    Args:
        df: The frame.

    Examples:
        >>> import pandas as pd
        >>> from ray.train.lightgbm import normalize_pandas_for_lightgbm
        >>> frame = pd.DataFrame({"x": pd.Series([1, 2], dtype="int64[pyarrow]")})
        >>> str(normalize_pandas_for_lightgbm(frame)["x"].dtype)
        'Int64'
    """
    pd = required("pandas", "LightGBM from Arrow")
    import pyarrow as pa

    wanted = {}
    for column, dtype in df.dtypes.items():
        if not isinstance(dtype, pd.ArrowDtype):
            continue
        kind = dtype.pyarrow_dtype
        if pa.types.is_boolean(kind):
            wanted[column] = "boolean"
        elif pa.types.is_integer(kind):
            prefix = "Int" if pa.types.is_signed_integer(kind) else "UInt"
            wanted[column] = f"{prefix}{kind.bit_width}"
        elif pa.types.is_floating(kind):
            wanted[column] = f"Float{kind.bit_width}"
    return df.astype(wanted) if wanted else df
