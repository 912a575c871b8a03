"""Expressions of columns, evaluated on whole blocks by pyarrow: ``col("x") > 5``.

``Dataset.filter``, ``with_column`` and ``with_columns`` take them.
"""

from __future__ import annotations

from heliostat.data.expressions.expr import Expr, col, lit, star, unnest
from heliostat.data.expressions.functions import pyarrow_udf, udf
from heliostat.data.expressions.made import download, monotonically_increasing_id, random, uuid

__all__ = [
    "Expr",
    "col",
    "download",
    "lit",
    "monotonically_increasing_id",
    "pyarrow_udf",
    "random",
    "star",
    "udf",
    "unnest",
    "uuid",
]
