"""What an expression is: a function of a table that gives one value for each row, and its operators."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import cloudpickle
import pyarrow as pa
import pyarrow.compute as pc

from heliostat.data.expressions import arithmetic, fields
from heliostat.data.expressions.nested import Arrays, Lists, Maps, Structs
from heliostat.data.expressions.strings import Strings
from heliostat.data.expressions.times import Times

Evaluate = Callable[[Any], Any]
Text = str  # `Expr.str` hides the name within the class


_pickling = threading.local()


def _unpickled(data: bytes) -> Expr:
    made: Expr = pickle.loads(data)
    return made


class Expr:
    """A value for each row of a table. Comparison, arithmetic and ``& | ~`` give expressions.

    Integers divided by ``/`` give integers, cut towards zero, as pyarrow divides.
    """

    def __init__(
        self,
        evaluate: Evaluate,
        text: Text,
        name: Text | None = None,
        *,
        inputs: tuple[Expr, ...] = (),
        keeps_state: bool = False,
        declared: Any = None,
    ) -> None:
        self._evaluate, self._text, self._name = evaluate, text, name
        self._keeps_state: bool = keeps_state or any(i._keeps_state for i in inputs)
        self._declared = declared  # the Arrow type, where the expression's author has said it

    def __reduce_ex__(self, protocol: Any) -> Any:
        # It is made of local functions, which only cloudpickle can pickle: it does so once, for all
        # parts of the expression together, so that plans with expressions can go anywhere.
        if getattr(_pickling, "within", False):
            return super().__reduce_ex__(protocol)
        _pickling.within = True
        try:
            return _unpickled, (cloudpickle.dumps(self),)
        finally:
            _pickling.within = False

    @property
    def name(self) -> Text | None:
        """The column's name, if the expression is one or has an alias."""
        return self._name

    def alias(self, name: Text) -> Expr:
        """Return the same under another name."""
        text = f"{self._text}.alias({name!r})"
        return Expr(self._evaluate, text, name, inputs=(self,), declared=self._declared)

    # --- for the library ---

    def column(self, table: Any) -> Any:
        """The values for a table."""
        value = self._evaluate(table)
        if isinstance(value, pa.Scalar):
            return pa.repeat(value, table.num_rows)
        return value

    def mask(self, table: Any) -> Any:
        """The expression as a mask; where it is unknown, false."""
        found = self.column(table)
        if pa.types.is_null(found.type):
            return pa.repeat(pa.scalar(False), table.num_rows)
        return pc.fill_null(found, False)

    @property
    def keeps_state(self) -> bool:
        """Whether it has an object that is to be made once a worker, which needs actors."""
        return self._keeps_state

    def type_in(self, schema: Any) -> Any:
        """The Arrow type of its values, where that is known without evaluating it; else None."""
        return self._declared

    def to_pyarrow(self) -> Any:
        """Return it as a ``pyarrow.compute.Expression``, such as filters of pyarrow datasets take.

        Raises:
            TypeError: A part of it is no function of pyarrow alone: the user's own, a random number,
                or one that depends on the types of the columns.
        """
        value = None
        reason: Exception | None = None
        try:
            value = self._evaluate(fields.Fields())
        except (AttributeError, TypeError, NotImplementedError, pa.ArrowInvalid) as error:
            reason = error
        if isinstance(value, pa.Scalar):
            return pc.scalar(value)
        if not isinstance(value, pc.Expression):
            raise TypeError(f"{self!r} has no equal among pyarrow's expressions.") from reason
        return value

    def _call(self, function: Callable[[Any], Any], text: Text) -> Expr:
        made = f"{self._text}.{text}"
        return Expr(
            lambda table: arithmetic.of(function, self._evaluate(table)), made, inputs=(self,)
        )

    def _with(self, other: Any, function: Callable[[Any, Any], Any], sign: Text) -> Expr:
        right = other if isinstance(other, Expr) else lit(other)
        text = f"({self._text} {sign} {right._text})"
        whole = function if function is arithmetic.add else partial(arithmetic.apply, function)
        return Expr(
            lambda t: arithmetic.of(whole, self._evaluate(t), right._evaluate(t)),
            text,
            inputs=(self, right),
        )

    def _after(self, other: Any, function: Callable[[Any, Any], Any], sign: Text) -> Expr:
        return lit(other)._with(self, function, sign)

    # --- missing values, membership, types ---

    def is_null(self) -> Expr:
        """Return whether the value is missing."""
        return self._call(pc.is_null, "is_null()")

    def is_not_null(self) -> Expr:
        """Return whether the value is there."""
        return self._call(pc.is_valid, "is_not_null()")

    def is_in(self, values: Any) -> Expr:
        """Return whether the value is one of a list, or of a literal that is a list."""
        if isinstance(values, Expr):
            constant = values._evaluate(None) if isinstance(values, _Literal) else None
            if not isinstance(constant, pa.ListScalar):
                raise TypeError(f"is_in() takes a list or a literal of one, not {values!r}.")
            values = constant.as_py()
        given = list(values)
        return self._call(
            lambda v: fields.is_in(v, given),
            f"is_in({given})",
        )

    def not_in(self, values: Any) -> Expr:
        """Return whether the value is none of a list."""
        return ~self.is_in(values)

    def cast(self, target_type: Any, *, safe: bool = True) -> Expr:
        """Return the values as another type.

        Args:
            target_type: A ``DataType`` or pyarrow type.
            safe: Refuse values that would change, such as 2.5 as an integer.
        """
        return self._call(lambda v: fields.cast(v, target_type, safe), f"cast({target_type})")

    # --- numbers ---

    def abs(self) -> Expr:
        """Return absolute values."""
        return self._call(pc.abs, "abs()")

    def negate(self) -> Expr:
        """Return values with the other sign."""
        return self._call(pc.negate, "negate()")

    def sign(self) -> Expr:
        """Return -1, 0 or 1 for negative values, zero and positive ones."""
        return self._call(pc.sign, "sign()")

    def round(self) -> Expr:
        """Return values rounded to the nearest integer; halves to the even one."""
        return self._call(pc.round, "round()")

    def ceil(self) -> Expr:
        """Return values rounded up."""
        return self._call(pc.ceil, "ceil()")

    def floor(self) -> Expr:
        """Return values rounded down."""
        return self._call(pc.floor, "floor()")

    def trunc(self) -> Expr:
        """Return values rounded towards zero."""
        return self._call(pc.trunc, "trunc()")

    def power(self, exponent: Any) -> Expr:
        """Return values to the power of a number or an expression."""
        return self._with(exponent, pc.power, "**")

    def exp(self) -> Expr:
        """Return e to the power of the values."""
        return self._call(pc.exp, "exp()")

    def ln(self) -> Expr:
        """Return natural logarithms; NaN of negative values."""
        return self._call(pc.ln, "ln()")

    def log2(self) -> Expr:
        """Return logarithms to base 2; NaN of negative values."""
        return self._call(pc.log2, "log2()")

    def log10(self) -> Expr:
        """Return logarithms to base 10; NaN of negative values."""
        return self._call(pc.log10, "log10()")

    def sin(self) -> Expr:
        """Return sines of angles in radians."""
        return self._call(pc.sin, "sin()")

    def cos(self) -> Expr:
        """Return cosines of angles in radians."""
        return self._call(pc.cos, "cos()")

    def tan(self) -> Expr:
        """Return tangents of angles in radians."""
        return self._call(pc.tan, "tan()")

    def asin(self) -> Expr:
        """Return angles in radians; NaN of values beyond -1 and 1."""
        return self._call(pc.asin, "asin()")

    def acos(self) -> Expr:
        """Return angles in radians; NaN of values beyond -1 and 1."""
        return self._call(pc.acos, "acos()")

    def atan(self) -> Expr:
        """Return angles in radians."""
        return self._call(pc.atan, "atan()")

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

    def __add__(self, other: Any) -> Expr:
        return self._with(other, arithmetic.add, "+")

    def __radd__(self, other: Any) -> Expr:
        return self._after(other, arithmetic.add, "+")

    def __sub__(self, other: Any) -> Expr:
        return self._with(other, pc.subtract, "-")

    def __rsub__(self, other: Any) -> Expr:
        return self._after(other, pc.subtract, "-")

    def __mul__(self, other: Any) -> Expr:
        return self._with(other, pc.multiply, "*")

    def __rmul__(self, other: Any) -> Expr:
        return self._after(other, pc.multiply, "*")

    def __truediv__(self, other: Any) -> Expr:
        return self._with(other, pc.divide, "/")

    def __rtruediv__(self, other: Any) -> Expr:
        return self._after(other, pc.divide, "/")

    def __floordiv__(self, other: Any) -> Expr:
        return self._with(other, arithmetic.floor_divide, "//")

    def __rfloordiv__(self, other: Any) -> Expr:
        return self._after(other, arithmetic.floor_divide, "//")

    def __mod__(self, other: Any) -> Expr:
        return self._with(other, arithmetic.modulo, "%")

    def __rmod__(self, other: Any) -> Expr:
        return self._after(other, arithmetic.modulo, "%")

    def __pow__(self, other: Any) -> Expr:
        return self.power(other)

    def __neg__(self) -> Expr:
        return self.negate()

    def __gt__(self, other: Any) -> Expr:
        return self._with(other, pc.greater, ">")

    def __ge__(self, other: Any) -> Expr:
        return self._with(other, pc.greater_equal, ">=")

    def __lt__(self, other: Any) -> Expr:
        return self._with(other, pc.less, "<")

    def __le__(self, other: Any) -> Expr:
        return self._with(other, pc.less_equal, "<=")

    def __eq__(self, other: Any) -> Expr:  # type: ignore[override] # gives an expression
        return self._with(other, pc.equal, "==")

    def __ne__(self, other: Any) -> Expr:  # type: ignore[override] # gives an expression
        return self._with(other, pc.not_equal, "!=")

    def __and__(self, other: Any) -> Expr:
        return self._with(other, pc.and_kleene, "&")

    def __or__(self, other: Any) -> Expr:
        return self._with(other, pc.or_kleene, "|")

    def __invert__(self) -> Expr:
        return self._call(pc.invert, "invert()")

    __hash__ = object.__hash__

    def __bool__(self) -> bool:
        raise TypeError("an expression has no truth value: use & | ~ instead of and, or, not.")

    def __repr__(self) -> Text:
        return (
            self._text[1:-1]
            if self._text.startswith("(") and self._text.endswith(")")
            else self._text
        )


class _Column(Expr):
    """A column of the table."""

    def __init__(self, name: str) -> None:
        def evaluate(table: Any) -> Any:
            if name not in table.column_names:
                raise KeyError(f"there is no column {name!r}; there are {table.column_names}")
            return table.column(name)

        super().__init__(evaluate, f"col({name!r})", name)
        self._of = name

    def type_in(self, schema: Any) -> Any:
        """The column's type, if the schema is known and has it."""
        return schema.field(self._of).type if schema and self._of in schema.names else None


class _Literal(Expr):
    """The same value for all rows."""

    def __init__(self, value: Any) -> None:
        made = pa.scalar(value)
        super().__init__(lambda _: made, repr(value), declared=made.type)


class Unnest(Expr):
    """The fields of a struct as columns, which only ``Dataset.with_columns`` can place."""

    def __init__(self, expr: Expr) -> None:
        super().__init__(expr._evaluate, f"unnest({expr!r})", inputs=(expr,))
        self._inner = expr

    def type_in(self, schema: Any) -> Any:
        """The struct's type, where that is known without evaluating it."""
        return self._inner.type_in(schema)

    def columns(self, table: Any) -> dict[str, Any]:
        """The values of each field for a table.

        Raises:
            TypeError: They are no structs.
        """
        value = self._inner.column(table)
        self.check(value.type)
        whole = value.combine_chunks() if isinstance(value, pa.ChunkedArray) else value
        return {f.name: pc.struct_field(whole, i) for i, f in enumerate(value.type)}

    @staticmethod
    def check(kind: Any) -> None:
        """Raise ``TypeError`` for an Arrow type that is no struct."""
        if not pa.types.is_struct(kind):
            raise TypeError(f"unnest() needs an expression of structs, this one is of {kind}.")

    def alias(self, name: Text) -> Expr:
        """Raise ``TypeError``: the columns are named after the fields."""
        raise TypeError(
            "unnest() gives several columns, named after the struct's fields, and takes no other "
            "name: use ds.with_columns(unnest(expression))."
        )


def col(name: str) -> Expr:
    """Return the column of that name."""
    return _Column(name)


def lit(value: Any) -> Expr:
    """Return a constant."""
    return _Literal(value)


def star() -> Expr:
    """Return all columns, as one struct a row."""
    return Expr(lambda table: table.to_struct_array(), "col(*)")


def unnest(expr: Expr) -> Expr:
    """Return the fields of structs as columns of their own, for ``Dataset.with_columns``.

    Only one level is taken apart: a field that is itself a struct stays one.

    Raises:
        TypeError: It is no expression, or ``unnest`` itself.
    """
    if isinstance(expr, Unnest):
        raise TypeError("unnest() cannot be nested inside another unnest().")
    if not isinstance(expr, Expr):
        raise TypeError(f"unnest() expects an expression, got {type(expr).__name__}.")
    return Unnest(expr)
