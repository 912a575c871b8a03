"""Expressions of columns, evaluated on whole blocks by pyarrow: ``col("x") > 5``.

``Dataset.filter``, ``with_column`` and ``with_columns`` take them. Each is a tree, whose nodes have
classes of this package: ``ColumnExpr``; ``BinaryExpr`` with ``op`` (an ``Operation``), ``left``
and ``right``; and so on.
"""

from __future__ import annotations

from heliostat.data.expressions.expr import (  # the nodes' classes
    AliasExpr,
    BinaryExpr,
    ColumnExpr,
    Expr,
    LiteralExpr,
    StarExpr,
    UnaryExpr,
    UnnestExpr,
    col,
    lit,
    star,
    unnest,
)
from heliostat.data.expressions.functions import UDFExpr, pyarrow_udf, udf
from heliostat.data.expressions.generated import (  # the nodes' classes
    DownloadExpr,
    MonotonicallyIncreasingIdExpr,
    RandomExpr,
    UUIDExpr,
    download,
    monotonically_increasing_id,
    random,
    uuid,
)
from heliostat.data.expressions.operation import Operation

__all__ = [
    "Expr",
    "Operation",
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
