"""Expressions of columns, evaluated on whole blocks by pyarrow: ``col("x") > 5``."""

from __future__ import annotations

import ast
import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from heliostat.data import tensors
from heliostat.data.expression_names import Namespace
from heliostat.data.plan import task

TASK_BITS = 33  # of a row's number that count within a task
DOWNLOADS_MAX = 16  # files that one task reads at the same time

Evaluate = Callable[[Any], Any]
Text = str  # `Expr.str` hides the name within the class


class Expr:
    """A value for each row of a table. Comparison, arithmetic and ``& | ~`` give expressions."""

    def __init__(self, evaluate: Evaluate, text: Text, name: Text | None = None) -> None:
        self._evaluate, self._text, self._name = evaluate, text, name

    @property
    def name(self) -> Text | None:
        """The column's name, if the expression is one or has an alias."""
        return self._name

    def column(self, table: Any) -> Any:
        """The values for a table."""
        value = self._evaluate(table)
        if isinstance(value, pa.Scalar):
            return pa.repeat(value, table.num_rows)
        return value

    def evaluate(self, table: Any) -> Any:
        """The expression as a mask; where it is unknown, false."""
        return pc.fill_null(self.column(table), False)

    def alias(self, name: Text) -> Expr:
        """Return the same under another name."""
        return Expr(self._evaluate, f"{self._text}.alias({name!r})", name)

    def cast(self, target_type: Any, *, safe: bool = True) -> Expr:
        """Return the values as another Arrow type."""
        return self._call(lambda v: pc.cast(v, target_type, safe=safe), f"cast({target_type})")

    def is_null(self) -> Expr:
        """Return whether the value is missing."""
        return self._call(pc.is_null, "is_null()")

    def is_not_null(self) -> Expr:
        """Return whether the value is there."""
        return self._call(pc.is_valid, "is_not_null()")

    def is_in(self, values: Any) -> Expr:
        """Return whether the value is one of a list."""
        given = list(values)
        return self._call(lambda v: pc.is_in(v, value_set=pa.array(given)), f"is_in({given})")

    def not_in(self, values: Any) -> Expr:
        """Return whether the value is none of a list."""
        return ~self.is_in(values)

    def fill_null(self, value: Any) -> Expr:
        """Return the values, with missing ones replaced."""
        return self._call(lambda v: pc.fill_null(v, value), f"fill_null({value!r})")

    def abs(self) -> Expr:
        """Return absolute values."""
        return self._call(pc.abs, "abs()")

    def round(self, decimals: int = 0) -> Expr:
        """Return rounded values."""
        return self._call(lambda v: pc.round(v, ndigits=decimals), f"round({decimals})")

    def ceil(self) -> Expr:
        """Return values rounded up."""
        return self._call(pc.ceil, "ceil()")

    def floor(self) -> Expr:
        """Return values rounded down."""
        return self._call(pc.floor, "floor()")

    @property
    def str(self) -> Namespace:
        """Functions of strings, such as ``.str.upper()``."""
        return Namespace(self, "str")

    @property
    def list(self) -> Namespace:
        """Functions of lists, such as ``.list.len()``."""
        return Namespace(self, "list")

    @property
    def dt(self) -> Namespace:
        """Functions of times, such as ``.dt.year()``."""
        return Namespace(self, "dt")

    @property
    def struct(self) -> Namespace:
        """Fields of structs, as ``.struct["name"]``."""
        return Namespace(self, "struct")

    def _call(self, function: Callable[[Any], Any], text: Text) -> Expr:
        return Expr(lambda table: function(self._evaluate(table)), f"{self._text}.{text}")

    def _with(self, other: Any, function: Callable[[Any, Any], Any], sign: Text) -> Expr:
        right = other if isinstance(other, Expr) else lit(other)
        text = f"({self._text} {sign} {right._text})"
        return Expr(lambda t: function(self._evaluate(t), right._evaluate(t)), text)

    def _after(self, other: Any, function: Callable[[Any, Any], Any], sign: Text) -> Expr:
        return lit(other)._with(self, function, sign)

    def __add__(self, other: Any) -> Expr:
        return self._with(other, _add, "+")

    def __radd__(self, other: Any) -> Expr:
        return self._after(other, _add, "+")

    def __sub__(self, other: Any) -> Expr:
        return self._with(other, pc.subtract, "-")

    def __rsub__(self, other: Any) -> Expr:
        return self._after(other, pc.subtract, "-")

    def __mul__(self, other: Any) -> Expr:
        return self._with(other, pc.multiply, "*")

    def __rmul__(self, other: Any) -> Expr:
        return self._after(other, pc.multiply, "*")

    def __truediv__(self, other: Any) -> Expr:
        return self._with(other, _divide, "/")

    def __rtruediv__(self, other: Any) -> Expr:
        return self._after(other, _divide, "/")

    def __floordiv__(self, other: Any) -> Expr:
        return self._with(other, _floor_divide, "//")

    def __rfloordiv__(self, other: Any) -> Expr:
        return self._after(other, _floor_divide, "//")

    def __mod__(self, other: Any) -> Expr:
        return self._with(other, _modulo, "%")

    def __pow__(self, other: Any) -> Expr:
        return self._with(other, pc.power, "**")

    def __neg__(self) -> Expr:
        return self._call(pc.negate, "negate()")

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


def _is_text(value: Any) -> bool:
    return bool(pa.types.is_string(value.type) or pa.types.is_large_string(value.type))


def _add(a: Any, b: Any) -> Any:
    if _is_text(a) and _is_text(b):
        return pc.binary_join_element_wise(a, b, "")
    return pc.add(a, b)


def _divide(a: Any, b: Any) -> Any:
    return pc.divide(pc.cast(a, pa.float64()), pc.cast(b, pa.float64()))


def _floor_divide(a: Any, b: Any) -> Any:
    whole = pa.types.is_integer(a.type) and pa.types.is_integer(b.type)
    found = pc.floor(_divide(a, b))
    return pc.cast(found, pa.int64()) if whole else found


def _modulo(a: Any, b: Any) -> Any:
    return pc.subtract(a, pc.multiply(_floor_divide(a, b), b))


def col(name: str) -> Expr:
    """Return the column of that name."""

    def evaluate(table: Any) -> Any:
        if name not in table.column_names:
            raise KeyError(f"there is no column {name!r}; there are {table.column_names}")
        return table.column(name)

    return Expr(evaluate, f"col({name!r})", name)


def lit(value: Any) -> Expr:
    """Return a constant."""
    made = pa.scalar(value)
    return Expr(lambda _: made, repr(value))


def star() -> Expr:
    """Return all columns: for ``Dataset.select_columns`` and its like, a struct of them."""
    return Expr(lambda table: table.to_struct_array(), "star()")


def monotonically_increasing_id() -> Expr:
    """Return a number for each row that rises within a block and differs between rows."""

    def evaluate(table: Any) -> Any:
        begin = task.index() << TASK_BITS
        return pa.array(np.arange(begin, begin + table.num_rows, dtype=np.int64))

    return Expr(evaluate, "monotonically_increasing_id()")


def random(*, seed: Any = None, reseed_after_execution: bool = True) -> Expr:
    """Return a random number from 0 to 1 for each row; with a ``seed`` the same every time."""

    def evaluate(table: Any) -> Any:
        rng = np.random.default_rng(None if seed is None else [int(seed), task.index()])
        return pa.array(rng.random(table.num_rows))

    return Expr(evaluate, "random()")


def uuid() -> Expr:
    """Return a random UUID for each row, as text."""
    import uuid as standard

    return Expr(
        lambda table: pa.array([str(standard.uuid4()) for _ in range(table.num_rows)], pa.string()),
        "uuid()",
    )


def download(uri_column_name: Text, *, filesystem: Any = None) -> Expr:
    """Return the bytes of the files that a column names; null for one that cannot be read."""

    def fetch(uri: Text | None) -> bytes | None:
        from heliostat.data.sources.files import resolve

        if uri is None:
            return None
        try:
            path, found = resolve(uri, filesystem)
            with found.open_input_stream(path) as stream:
                data: bytes = stream.read()
            return data
        except (OSError, ValueError):
            return None

    def evaluate(table: Any) -> Any:
        from concurrent.futures import ThreadPoolExecutor

        uris = table.column(uri_column_name).to_pylist()
        with ThreadPoolExecutor(DOWNLOADS_MAX) as pool:
            return pa.array(list(pool.map(fetch, uris)), pa.binary())

    return Expr(evaluate, f"download({uri_column_name!r})")


def udf(return_dtype: Any = None) -> Callable[[Callable[..., Any]], Callable[..., Expr]]:
    """Make a function of Arrow columns callable with expressions: ``@udf(pa.int64())``.

    The function gets a ``pyarrow.Array`` for each expression and returns one as long.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Expr]:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Expr:
            def evaluate(table: Any) -> Any:
                given = [_array(a.column(table)) if isinstance(a, Expr) else a for a in args]
                named = {
                    k: _array(v.column(table)) if isinstance(v, Expr) else v
                    for k, v in kwargs.items()
                }
                made = function(*given, **named)
                if isinstance(made, np.ndarray):
                    made = tensors.from_numpy(made)
                elif not isinstance(made, pa.Array | pa.ChunkedArray):
                    made = tensors.from_list(list(made))
                return made if return_dtype is None else pc.cast(made, return_dtype)

            return Expr(evaluate, f"{function.__name__}(...)")

        return call

    return decorate


pyarrow_udf = udf


def _array(column: Any) -> Any:
    if not isinstance(column, pa.ChunkedArray):
        return column
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


# --- expressions as text ---------------------------------------------------------------------------

_OPERATORS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.And: operator.and_,
    ast.Or: operator.or_,
}


def parse(text: str) -> Expr:
    """The expression that a text such as ``"x > 5 and name in ['a', 'b']"`` means.

    Raises:
        ValueError: It means none.
    """
    try:
        made = _made(ast.parse(text, mode="eval").body)
    except SyntaxError as error:
        raise ValueError(f"cannot read the expression {text!r}: {error}") from error
    if not isinstance(made, Expr):
        raise ValueError(f"{text!r} names no column")
    return made


def _made(node: ast.AST) -> Any:
    if isinstance(node, ast.Name):
        return col(node.id)
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.List | ast.Tuple):
        return [_made(item) for item in node.elts]
    if isinstance(node, ast.UnaryOp):
        inner = _made(node.operand)
        return ~inner if isinstance(node.op, ast.Not | ast.Invert) else -inner
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        return _OPERATORS[type(node.op)](_made(node.left), _made(node.right))
    if isinstance(node, ast.BoolOp):
        return functools.reduce(_OPERATORS[type(node.op)], [_made(v) for v in node.values])
    if isinstance(node, ast.Compare):
        return functools.reduce(operator.and_, _comparisons(node))
    raise ValueError(f"cannot use {ast.unparse(node)!r} in an expression")


def _comparisons(node: ast.Compare) -> Sequence[Any]:
    left = _made(node.left)
    made = []
    for sign, following in zip(node.ops, node.comparators, strict=True):
        right = _made(following)
        if isinstance(sign, ast.In):
            made.append(left.is_in(right))
        elif isinstance(sign, ast.NotIn):
            made.append(left.not_in(right))
        elif type(sign) in _OPERATORS:
            made.append(_OPERATORS[type(sign)](left, right))
        else:
            raise ValueError(f"cannot use {ast.unparse(node)!r} in an expression")
        left = right
    return made
