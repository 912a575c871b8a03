"""The base of the functions behind ``expr.str``, ``expr.list`` and their like."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

    from heliostat.data.expressions.expr import Expr


class Namespace:
    """Functions of one kind of values, called as methods of an expression."""

    prefix = ""

    def __init__(self, expression: Expr) -> None:
        self._expression = expression

    def _call(
        self, name: str, function: Callable[..., object], *args: object, **kwargs: object
    ) -> Expr:
        """The function of the expression's values and these arguments."""
        return self._expression._call(function, f"{self.prefix}.{name}", *args, **kwargs)


def one_of(kind: str, given: object, allowed: tuple[str, ...]) -> None:
    """Raise ``ValueError`` for an argument that is none of the allowed words."""
    if given not in allowed:
        raise ValueError(f"{kind} must be one of {', '.join(map(repr, allowed))}, got {given!r}.")


def whole(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    """An array in one piece, of an array or a chunked one."""
    import pyarrow as pa

    if not isinstance(values, pa.ChunkedArray):
        return values
    return pa.concat_arrays(values.chunks) if values.num_chunks else pa.array([], values.type)
