"""References to columns in the place of columns: pyarrow's functions of them are its expressions."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc


class _AnyName:
    def __contains__(self, name: object) -> bool:
        return True


class Fields:
    """In the place of a table whose columns are not known yet."""

    column_names = _AnyName()

    def column(self, name: str) -> pa.Array:
        """A reference to the column."""
        return pc.field(name)

    @property
    def num_rows(self) -> int:
        """Raise ``TypeError``: there are none to make values for."""
        raise TypeError("its values depend on the number or the place of rows")


def is_in(value: pa.Array | pa.ChunkedArray | pc.Expression, values: list[object]) -> pa.Array:
    """Return whether each value is in the list."""
    if values:
        return pc.is_in(value, value_set=pa.array(values))
    if isinstance(value, pc.Expression):  # of a type not known, which an empty list would need
        return pc.and_kleene(pc.is_valid(value), pc.scalar(False))
    return pc.is_in(value, value_set=pa.array([], value.type))


def cast(
    value: pa.Array | pa.ChunkedArray | pc.Expression, target_type: pa.DataType, safe: bool
) -> pa.ChunkedArray:
    """The value, or the reference, as another type."""
    if isinstance(value, pc.Expression):
        return value.cast(target_type, safe=safe)
    return pc.cast(value, target_type, safe=safe)
