"""Expressions: a tree of columns, literals and calls, and the operators that build it.

Each node knows its operands, so that a plan can ask which columns an expression reads, move it to
another place, or hand it to a reader (see ``plan/optimize.py``). Its value for a table is computed by
pyarrow's functions, from the leaves up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from heliostat.data.datatype import as_arrow
from heliostat.data.expressions import arithmetic, fields
from heliostat.data.expressions.nested import Arrays, Lists, Maps, Structs
from heliostat.data.expressions.operation import BINARY, UNARY, Operation
from heliostat.data.expressions.strings import Strings
from heliostat.data.expressions.times import Times
from heliostat.data.missing import no_columns

if TYPE_CHECKING:
    from heliostat.data.aliases import Value
    from heliostat.data.datatype import DataType


Text = str  # `Expr.str` hides the name within the class


class Expr:
    """A value for each row of a table. Comparison, arithmetic and ``& | ~`` give expressions.

    Integers divided by ``/`` give integers, cut towards zero, as pyarrow divides.

    Args:
        *operands: The expressions that it is made of.

    Examples:
        >>> import ray
        >>> from ray.data.expressions import col
        >>> ds = ray.data.range(5).filter(expr=(col("id") > 1) & (col("id") != 3))
        >>> ds.with_column("double", col("id") * 2).take_all()
        [{'id': 2, 'double': 4}, {'id': 4, 'double': 8}]
    """

    is_pure = True  # the node's values depend on the rows' values alone, and computing them changes nothing

    def __init__(self, *operands: Expr) -> None:
        self.operands = operands

    @property
    def name(self) -> Text | None:
        """The column's name, if the expression is one or has an alias."""
        return None

    def alias(self, name: Text) -> Expr:
        """Return the same under another name.

        Args:
            name: The name.
        """
        return AliasExpr(self, name)

    # --- for the library: evaluating ---

    def values(self, table: pa.Table) -> pa.ChunkedArray:
        """Return an array, a chunked array or a scalar of the values for a table.

        Args:
            table: The ``pyarrow.Table``.

        Raises:
            NotImplementedError: Every kind of expression has its own.
        """
        raise NotImplementedError

    def column(self, table: pa.Table) -> pa.ChunkedArray:
        """Return the values for a table, one for each row.

        Args:
            table: The ``pyarrow.Table``.
        """
        value = self.values(table)
        if isinstance(value, pa.Scalar):
            return pa.repeat(value, table.num_rows)
        return value

    def mask(self, table: pa.Table) -> pa.ChunkedArray:
        """Return the expression as a mask; where it is unknown, false.

        Args:
            table: The ``pyarrow.Table``.
        """
        found = self.column(table)
        if pa.types.is_null(found.type):
            return pa.repeat(pa.scalar(False), table.num_rows)
        return pc.fill_null(found, False) if found.null_count else found

    # --- for the library: looking into it ---

    @property
    def movable(self) -> bool:
        """Whether every node is pure, so that it may be computed elsewhere, or not at all."""
        return self.is_pure and all(o.movable for o in self.operands)

    @property
    def keeps_state(self) -> bool:
        """Whether it has an object that is to be made once a worker, which needs actors."""
        return any(o.keeps_state for o in self.operands)

    def columns(self) -> frozenset[Text] | None:
        """The names of the columns that it reads; None: all that there are."""
        read: set[Text] = set()
        for operand in self.operands:
            found = operand.columns()
            if found is None:
                return None
            read |= found
        return frozenset(read)

    def replaced(self, others: Mapping[Text, Expr]) -> Expr:
        """Return the expression with other expressions in the place of columns.

        Args:
            others: Expressions by column.
        """
        if not self.operands:
            return self
        return self.rebuilt(*(o.replaced(others) for o in self.operands))

    def rebuilt(self, *operands: Expr) -> Expr:
        """Return the same node over other operands.

        Args:
            *operands: These.

        Raises:
            NotImplementedError: Every kind of expression has its own.
        """
        raise NotImplementedError

    def type_in(self, schema: pa.Schema) -> pa.DataType | None:
        """Return the Arrow type of its values, where that is known without evaluating it; else None.

        Args:
            schema: The ``pyarrow.Schema`` of the table.
        """
        return None

    def to_pyarrow(self) -> pc.Expression:
        """Return it as a ``pyarrow.compute.Expression``, such as filters of pyarrow datasets take.

        Raises:
            TypeError: A part of it is not a function of pyarrow alone: the user's own, a random number,
                or one that depends on the types of the columns.
        """
        value = None
        reason: Exception | None = None
        try:
            value = self.values(fields.Fields())
        except (AttributeError, TypeError, NotImplementedError, pa.ArrowInvalid) as error:
            reason = error
        if isinstance(value, pa.Scalar):
            return pc.scalar(value)
        if not isinstance(value, pc.Expression):
            raise TypeError(f"{self!r} has no equal among pyarrow's expressions.") from reason
        return value

    def structurally_equals(self, other: object) -> bool:
        """Return whether another expression is the same tree.

        Args:
            other: The other expression.
        """
        return (
            type(self) is type(other)
            and self.same_node(other)
            and len(self.operands) == len(other.operands)
            and all(
                mine.structurally_equals(its)
                for mine, its in zip(self.operands, other.operands, strict=True)
            )
        )

    def same_node(self, other: object) -> bool:
        """Return whether a node of the same class is the same, operands apart.

        Args:
            other: The other node.
        """
        return self is other

    def _call(
        self, function: Callable[..., object], name: Text, *args: object, **kwargs: object
    ) -> Expr:
        return Call(function, name, (self,), args, kwargs)

    def _with(self, other: object, op: Operation) -> Expr:
        return BinaryExpr(op, self, other if isinstance(other, Expr) else lit(other))

    def _after(self, other: object, op: Operation) -> Expr:
        return BinaryExpr(op, lit(other), self)

    def text(self) -> Text:
        """Return the expression as its author wrote it.

        Raises:
            NotImplementedError: Every kind of expression has its own.
        """
        raise NotImplementedError

    # --- missing values, membership, types ---

    def is_null(self) -> Expr:
        """Return whether the value is missing."""
        return UnaryExpr(Operation.IS_NULL, self)

    def is_not_null(self) -> Expr:
        """Return whether the value is there."""
        return UnaryExpr(Operation.IS_NOT_NULL, self)

    def is_in(self, values: Expr | Iterable[Value]) -> Expr:
        """Return whether the value is one of a list, or of a literal that is a list.

        Args:
            values: The list.

        Raises:
            TypeError: It is an expression, and no literal of a list.
        """
        return BinaryExpr(
            Operation.IN, self, values if isinstance(values, Expr) else lit(list(values))
        )

    def not_in(self, values: Expr | Iterable[Value]) -> Expr:
        """Return whether the value is none of a list.

        Args:
            values: The list.
        """
        return ~self.is_in(values)

    def cast(self, target_type: DataType | pa.DataType, *, safe: bool = True) -> Expr:
        """Return the values as another type.

        Args:
            target_type: A ``DataType`` or pyarrow type.
            safe: Refuse values that would change, such as 2.5 as an integer.

        Raises:
            TypeError: It is the ``DataType`` of a Python class, which may be several types of Arrow.
        """
        return self._call(fields.cast, "cast", as_arrow(target_type), safe=safe)

    # --- numbers ---

    def abs(self) -> Expr:
        """Return absolute values."""
        return self._call(pc.abs, "abs")

    def negate(self) -> Expr:
        """Return values with the other sign."""
        return self._call(pc.negate, "negate")

    def sign(self) -> Expr:
        """Return -1, 0 or 1 for negative values, zero and positive ones."""
        return self._call(pc.sign, "sign")

    def round(self) -> Expr:
        """Return values rounded to the nearest integer; halves to the even one."""
        return self._call(pc.round, "round")

    def ceil(self) -> Expr:
        """Return values rounded up."""
        return self._call(pc.ceil, "ceil")

    def floor(self) -> Expr:
        """Return values rounded down."""
        return self._call(pc.floor, "floor")

    def trunc(self) -> Expr:
        """Return values rounded towards zero."""
        return self._call(pc.trunc, "trunc")

    def power(self, exponent: object) -> Expr:
        """Return values to the power of a number or an expression.

        Args:
            exponent: The number or the expression.
        """
        right = exponent if isinstance(exponent, Expr) else lit(exponent)
        return Call(pc.power, "**", (self, right), infix=True)

    def exp(self) -> Expr:
        """Return e to the power of the values."""
        return self._call(pc.exp, "exp")

    def ln(self) -> Expr:
        """Return natural logarithms; NaN of negative values."""
        return self._call(pc.ln, "ln")

    def log2(self) -> Expr:
        """Return logarithms to base 2; NaN of negative values."""
        return self._call(pc.log2, "log2")

    def log10(self) -> Expr:
        """Return logarithms to base 10; NaN of negative values."""
        return self._call(pc.log10, "log10")

    def sin(self) -> Expr:
        """Return sines of angles in radians."""
        return self._call(pc.sin, "sin")

    def cos(self) -> Expr:
        """Return cosines of angles in radians."""
        return self._call(pc.cos, "cos")

    def tan(self) -> Expr:
        """Return tangents of angles in radians."""
        return self._call(pc.tan, "tan")

    def asin(self) -> Expr:
        """Return angles in radians; NaN of values beyond -1 and 1."""
        return self._call(pc.asin, "asin")

    def acos(self) -> Expr:
        """Return angles in radians; NaN of values beyond -1 and 1."""
        return self._call(pc.acos, "acos")

    def atan(self) -> Expr:
        """Return angles in radians."""
        return self._call(pc.atan, "atan")

    # --- functions of one kind of values ---

    @property
    def str(self) -> Strings:
        """Functions of strings, such as ``.str.upper()``."""
        return Strings(self)

    @property
    def dt(self) -> Times:
        """Functions of times, such as ``.dt.year()``."""
        return Times(self)

    @property
    def list(self) -> Lists:
        """Functions of lists, such as ``.list.len()`` or ``.list[0]``."""
        return Lists(self)

    @property
    def struct(self) -> Structs:
        """Fields of structs, as ``.struct["name"]``."""
        return Structs(self)

    @property
    def map(self) -> Maps:
        """Keys and values of maps, such as ``.map.keys()``."""
        return Maps(self)

    @property
    def arr(self) -> Arrays:
        """Functions of lists of a fixed length, such as ``.arr.to_list()``."""
        return Arrays(self)

    # --- operators ---

    def __add__(self, other: object) -> Expr:
        return self._with(other, Operation.ADD)

    def __radd__(self, other: object) -> Expr:
        return self._after(other, Operation.ADD)

    def __sub__(self, other: object) -> Expr:
        return self._with(other, Operation.SUB)

    def __rsub__(self, other: object) -> Expr:
        return self._after(other, Operation.SUB)

    def __mul__(self, other: object) -> Expr:
        return self._with(other, Operation.MUL)

    def __rmul__(self, other: object) -> Expr:
        return self._after(other, Operation.MUL)

    def __truediv__(self, other: object) -> Expr:
        return self._with(other, Operation.DIV)

    def __rtruediv__(self, other: object) -> Expr:
        return self._after(other, Operation.DIV)

    def __floordiv__(self, other: object) -> Expr:
        return self._with(other, Operation.FLOORDIV)

    def __rfloordiv__(self, other: object) -> Expr:
        return self._after(other, Operation.FLOORDIV)

    def __mod__(self, other: object) -> Expr:
        return self._with(other, Operation.MOD)

    def __rmod__(self, other: object) -> Expr:
        return self._after(other, Operation.MOD)

    def __pow__(self, other: object) -> Expr:
        return self.power(other)

    def __neg__(self) -> Expr:
        return self.negate()

    def __gt__(self, other: object) -> Expr:
        return self._with(other, Operation.GT)

    def __ge__(self, other: object) -> Expr:
        return self._with(other, Operation.GE)

    def __lt__(self, other: object) -> Expr:
        return self._with(other, Operation.LT)

    def __le__(self, other: object) -> Expr:
        return self._with(other, Operation.LE)

    def __eq__(self, other: object) -> Expr:  # type: ignore[override] # gives an expression
        return self._with(other, Operation.EQ)

    def __ne__(self, other: object) -> Expr:  # type: ignore[override] # gives an expression
        return self._with(other, Operation.NE)

    def __and__(self, other: object) -> Expr:
        return self._with(other, Operation.AND)

    def __or__(self, other: object) -> Expr:
        return self._with(other, Operation.OR)

    def __invert__(self) -> Expr:
        return UnaryExpr(Operation.NOT, self)

    __hash__ = object.__hash__

    def __bool__(self) -> bool:
        raise TypeError("an expression has no truth value: use & | ~ instead of and, or, not.")

    def __repr__(self) -> Text:
        text = self.text()
        return text[1:-1] if isinstance(self, Call) and self._infix else text


class ColumnExpr(Expr):
    """A column of the table."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._of = name

    @property
    def name(self) -> str:
        """The column's name."""
        return self._of

    def values(self, table: pa.Table) -> pa.ChunkedArray:
        """The column.

        Raises:
            KeyError: There is none of that name.
        """
        if self._of not in table.column_names:
            raise KeyError(no_columns([self._of], table.column_names))
        return table.column(self._of)

    def columns(self) -> frozenset[str]:
        """The name."""
        return frozenset([self._of])

    def replaced(self, others: Mapping[str, Expr]) -> Expr:
        """Return the expression in the place of the column."""
        return others.get(self._of, self)

    def type_in(self, schema: pa.Schema) -> pa.DataType | None:
        """The column's type, if the schema is known and has it."""
        return schema.field(self._of).type if schema and self._of in schema.names else None

    def same_node(self, other: Any) -> bool:
        """Whether it is of the same name."""
        return bool(self._of == other._of)

    def text(self) -> str:
        """The expression as its author wrote it."""
        return f"col({self._of!r})"


class LiteralExpr(Expr):
    """The same value for all rows."""

    def __init__(self, value: object) -> None:
        super().__init__()
        self.value = value
        self.scalar = pa.scalar(value)

    def values(self, table: pa.Table) -> pa.ChunkedArray:
        """The value as a scalar."""
        return self.scalar

    def type_in(self, schema: pa.Schema) -> pa.DataType | None:
        """The value's type."""
        return self.scalar.type

    def same_node(self, other: Any) -> bool:
        """Whether value and type are equal."""
        return bool(self.scalar.type == other.scalar.type and self.scalar.equals(other.scalar))

    def text(self) -> str:
        """The expression as its author wrote it."""
        return repr(self.value)


class Call(Expr):
    """A function of operands' values, with further arguments that are constants.

    ``function`` is one of pyarrow's or of this package's, so that it is pickled by its name.
    """

    def __init__(
        self,
        function: Callable[..., object],
        label: str,
        operands: tuple[Expr, ...],
        args: tuple[Value, ...] = (),
        kwargs: dict[str, object] | None = None,
        *,
        infix: bool = False,
    ) -> None:
        super().__init__(*operands)
        self.function, self.label = function, label
        self.args, self.kwargs, self._infix = args, kwargs or {}, infix

    def values(self, table: pa.Table) -> pa.ChunkedArray:
        """Return the values of the function."""
        given = [o.values(table) for o in self.operands]
        return arithmetic.of(self.function, given, self.args, self.kwargs)

    def rebuilt(self, *operands: Expr) -> Expr:
        """The same function of other operands."""
        return Call(self.function, self.label, operands, self.args, self.kwargs, infix=self._infix)

    def same_node(self, other: Any) -> bool:
        """Whether it is the same function with the same constants."""
        mine, its = (
            (self.function, self.args, self.kwargs),
            (other.function, other.args, other.kwargs),
        )
        return bool(mine == its)

    def text(self) -> str:
        """The expression as its author wrote it."""
        if self._infix:
            return f"({self.operands[0].text()} {self.label} {self.operands[1].text()})"
        said = [*map(repr, self.args), *(f"{k}={v!r}" for k, v in self.kwargs.items())]
        others = [o.text() for o in self.operands[1:]]
        return f"{self.operands[0].text()}.{self.label}({', '.join([*others, *said])})"


class BinaryExpr(Call):
    """An operator between two expressions, such as ``col("x") + 1``.

    Args:
        op: What it does, an ``Operation`` of two operands.
        left: Its left operand.
        right: Its right operand; of ``Operation.IN`` a literal of a list.

    Raises:
        TypeError: The operation has not two operands, or the right one is not a literal list.
    """

    def __init__(self, op: Operation, left: Expr, right: Expr) -> None:
        if op is Operation.IN:
            if not isinstance(right, LiteralExpr) or not isinstance(right.scalar, pa.ListScalar):
                raise TypeError(f"is_in() takes a list or a literal of one, not {right!r}.")
            super().__init__(fields.is_in, "is_in", (left,), (right.scalar.as_py(),))
        elif op in BINARY:
            sign, function = BINARY[op]
            super().__init__(function, sign, (left, right), infix=True)
        else:
            raise TypeError(f"{op} has not two operands that are expressions.")
        self.op, self.left, self.right = op, left, right

    def rebuilt(self, *operands: Expr) -> Expr:
        """The same operator between others."""
        return BinaryExpr(self.op, *operands, *([self.right] if self.op is Operation.IN else []))


class UnaryExpr(Call):
    """An operator on one expression, such as ``~col("x")``.

    Args:
        op: What it does, an ``Operation`` of one operand.
        operand: The expression.

    Raises:
        TypeError: The operation has not one operand.
    """

    def __init__(self, op: Operation, operand: Expr) -> None:
        if op not in UNARY:
            raise TypeError(f"{op} has not one operand.")
        name, function = UNARY[op]
        super().__init__(function, name, (operand,))
        self.op, self.operand = op, operand

    def rebuilt(self, *operands: Expr) -> Expr:
        """The same operator on another."""
        return UnaryExpr(self.op, *operands)


class AliasExpr(Expr):
    """Another name for an expression."""

    def __init__(self, expr: Expr, name: str) -> None:
        super().__init__(expr)
        self.expr, self._alias = expr, name

    @property
    def name(self) -> str:
        """The name."""
        return self._alias

    def values(self, table: pa.Table) -> pa.ChunkedArray:
        """The values of the expression."""
        return self.operands[0].values(table)

    def rebuilt(self, *operands: Expr) -> Expr:
        """The same name for another expression."""
        return AliasExpr(operands[0], self._alias)

    def type_in(self, schema: pa.Schema) -> pa.DataType | None:
        """The type of the expression."""
        return self.operands[0].type_in(schema)

    def same_node(self, other: Any) -> bool:
        """Whether the name is the same."""
        return bool(self._alias == other._alias)

    def text(self) -> str:
        """The expression as its author wrote it."""
        return f"{self.operands[0].text()}.alias({self._alias!r})"


class StarExpr(Expr):
    """All columns, as one struct a row."""

    def values(self, table: pa.Table) -> pa.ChunkedArray:
        """The structs."""
        return table.to_struct_array()

    def columns(self) -> None:
        """All of them."""
        return

    @property
    def movable(self) -> bool:
        """Whether it may be computed elsewhere: there it would have other columns."""
        return False

    def text(self) -> str:
        """The expression as its author wrote it."""
        return "col(*)"


class UnnestExpr(Expr):
    """The fields of a struct as columns, which only ``Dataset.with_columns`` can place."""

    def __init__(self, expr: Expr) -> None:
        super().__init__(expr)
        self.expr = expr

    def values(self, table: pa.Table) -> pa.ChunkedArray:
        """The structs."""
        return self.operands[0].values(table)

    def rebuilt(self, *operands: Expr) -> Expr:
        """The same of another expression."""
        return UnnestExpr(*operands)

    def type_in(self, schema: pa.Schema) -> pa.DataType | None:
        """The struct's type, where that is known without evaluating it."""
        return self.operands[0].type_in(schema)

    def same_node(self, other: object) -> bool:
        """Always: there is nothing but the operand."""
        return True

    def text(self) -> str:
        """The expression as its author wrote it."""
        return f"unnest({self.operands[0]!r})"

    def fields(self, table: pa.Table) -> dict[str, pa.Array]:
        """The values of each field for a table.

        Raises:
            TypeError: They are not structs.
        """
        value = self.column(table)
        self.check(value.type)
        whole = value.combine_chunks() if isinstance(value, pa.ChunkedArray) else value
        return {f.name: pc.struct_field(whole, i) for i, f in enumerate(value.type)}

    @staticmethod
    def check(kind: pa.DataType) -> None:
        """Raise ``TypeError`` for an Arrow type that is not a struct."""
        if not pa.types.is_struct(kind):
            raise TypeError(f"unnest() needs an expression of structs, this one is of {kind}.")

    def alias(self, name: Text) -> Expr:
        """Raise ``TypeError``: the columns are named after the fields."""
        raise TypeError(
            "unnest() gives several columns, named after the struct's fields, and takes no other "
            "name: use ds.with_columns(unnest(expression))."
        )


def col(name: str) -> Expr:
    """Return the column of that name.

    Args:
        name: The column's name.

    Examples:
        >>> import ray
        >>> from ray.data.expressions import col
        >>> ray.data.range(3).filter(expr=(col("id") > 0) & (col("id") < 2)).take_all()
        [{'id': 1}]
    """
    return ColumnExpr(name)


def lit(value: object) -> Expr:
    """Return a constant.

    Args:
        value: The constant.

    Examples:
        >>> import ray
        >>> from ray.data.expressions import col, lit
        >>> ray.data.range(2).with_column("x", lit(10) - col("id")).take_all()
        [{'id': 0, 'x': 10}, {'id': 1, 'x': 9}]
    """
    return LiteralExpr(value)


def star() -> Expr:
    """Return all columns, as one struct a row.

    Examples:
        >>> import ray
        >>> from ray.data.expressions import star
        >>> ds = ray.data.from_items([{"a": 1, "b": 2}]).with_column("both", star())
        >>> ds.take_all()
        [{'a': 1, 'b': 2, 'both': {'a': 1, 'b': 2}}]
    """
    return StarExpr()


def unnest(expr: Expr) -> Expr:
    """Return the fields of structs as columns of their own, for ``Dataset.with_columns``.

    Only one level is taken apart: a field that is itself a struct stays one.

    Args:
        expr: An expression whose values are structs.

    Raises:
        TypeError: It is not an expression, or ``unnest`` itself.

    Examples:
        >>> import ray
        >>> from ray.data.expressions import col, unnest
        >>> ds = ray.data.from_items([{"point": {"x": 1, "y": 2}}])
        >>> ds.with_columns(unnest(col("point"))).take_all()
        [{'point': {'x': 1, 'y': 2}, 'x': 1, 'y': 2}]
    """
    if isinstance(expr, UnnestExpr):
        raise TypeError("unnest() cannot be nested inside another unnest().")
    if not isinstance(expr, Expr):
        raise TypeError(f"unnest() expects an expression, got {type(expr).__name__}.")
    return UnnestExpr(expr)
