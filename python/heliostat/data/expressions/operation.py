"""Operations of expressions, by Ray's names."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from heliostat.data.expressions import arithmetic

if TYPE_CHECKING:
    import pyarrow as pa


class Operation(str, enum.Enum):
    """An operation of an operator on its operands.

    Examples:
        >>> from ray.data.expressions import Operation, col
        >>> (col("x") + 1).op is Operation.ADD
        True
        >>> (col("x") > 1).op.value
        'gt'
    """

    ADD = "add"
    SUB = "sub"
    MUL = "mul"
    DIV = "div"
    MOD = "mod"
    FLOORDIV = "floordiv"
    GT = "gt"
    LT = "lt"
    GE = "ge"
    LE = "le"
    EQ = "eq"
    NE = "ne"
    AND = "and"
    OR = "or"
    NOT = "not"
    IS_NULL = "is_null"
    IS_NOT_NULL = "is_not_null"
    IN = "in"
    NOT_IN = "not_in"


# The sign of each, and the function of the operands' values.
BINARY: dict[Operation, tuple[str, Callable[..., pa.Array]]] = {
    Operation.ADD: ("+", arithmetic.add),
    Operation.SUB: ("-", pc.subtract),
    Operation.MUL: ("*", pc.multiply),
    Operation.DIV: ("/", pc.divide),
    Operation.MOD: ("%", arithmetic.modulo),
    Operation.FLOORDIV: ("//", arithmetic.floor_divide),
    Operation.GT: (">", pc.greater),
    Operation.LT: ("<", pc.less),
    Operation.GE: (">=", pc.greater_equal),
    Operation.LE: ("<=", pc.less_equal),
    Operation.EQ: ("==", pc.equal),
    Operation.NE: ("!=", pc.not_equal),
    Operation.AND: ("&", pc.and_kleene),
    Operation.OR: ("|", pc.or_kleene),
}
UNARY: dict[Operation, tuple[str, Callable[..., pa.Array]]] = {
    Operation.NOT: ("invert", pc.invert),
    Operation.IS_NULL: ("is_null", pc.is_null),
    Operation.IS_NOT_NULL: ("is_not_null", pc.is_valid),
}
