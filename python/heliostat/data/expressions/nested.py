"""The functions behind ``expr.list``, ``expr.struct``, ``expr.map`` and ``expr.arr``."""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from heliostat.data.expressions.namespace import Namespace, one_of, whole

if TYPE_CHECKING:
    from heliostat.data.expressions.expr import Expr


class Lists(Namespace):
    """Functions of lists."""

    prefix = "list"

    def len(self) -> Expr:
        """Return how many values each list has."""
        return self._call("len", pc.list_value_length)

    def get(self, index: int) -> Expr:
        """Return the value at a position of each list; a negative one counts from the end.

        Raises:
            IndexError: While executing: a list is too short.
        """
        return self._call("get", _element, index)

    def slice(
        self, start: int | None = None, stop: int | None = None, step: int | None = None
    ) -> Expr:
        """Return the values of each list from ``start`` up to ``stop``, neither negative."""
        return self._call(
            "slice", pc.list_slice, start=start or 0, stop=stop, step=1 if step is None else step
        )

    def __getitem__(self, key: int | builtins.slice) -> Expr:
        if not isinstance(key, int):
            return self.slice(key.start, key.stop, key.step)
        return self.get(key)

    def flatten(self) -> Expr:
        """Return lists of lists with one level less: all values of a row in one list."""
        return self._call("flatten", _flattened)

    def sort(self, order: str = "ascending", null_placement: str = "at_end") -> Expr:
        """Return each list sorted.

        Args:
            order: "ascending" or "descending".
            null_placement: Where missing values go, "at_start" or "at_end".
        """
        one_of("order", order, ("ascending", "descending"))
        one_of("null_placement", null_placement, ("at_start", "at_end"))
        return self._call("sort", _sorted, order, null_placement)


class Structs(Namespace):
    """Fields of structs."""

    prefix = "struct"

    def field(self, field_name: str) -> Expr:
        """Return the field of that name."""
        return self._call("field", pc.struct_field, field_name)

    def field_by_index(self, index: int) -> Expr:
        """Return the field at that position, from 0."""
        return self._call("field_by_index", pc.struct_field, index)

    def __getitem__(self, field_name: str) -> Expr:
        return self.field(field_name)


class Maps(Namespace):
    """Keys and values of maps; lists of pairs count as maps."""

    prefix = "map"

    def keys(self) -> Expr:
        """Return the keys of each map, as a list."""
        return self._call("keys", _of_pairs, 0)

    def values(self) -> Expr:
        """Return the values of each map, as a list."""
        return self._call("values", _of_pairs, 1)


class Arrays(Namespace):
    """Functions of lists of a fixed length and of tensors."""

    prefix = "arr"

    def to_list(self) -> Expr:
        """Return lists whose length may differ from row to row."""
        return self._call("to_list", _of_any_length)


def _lists(values: object) -> pa.Array:
    """The values as lists with 64-bit offsets, in one piece."""
    found = whole(values)
    kind = found.type
    if isinstance(kind, pa.FixedShapeTensorType):
        found, kind = found.storage, found.storage.type
    if pa.types.is_map(kind):
        kind = pa.list_(pa.struct([kind.key_field, kind.item_field]))
        found = pc.cast(found, kind)
    lists = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    if not any(is_list(kind) for is_list in lists):
        raise TypeError(f"expected a column of lists, this one is of {kind}.")
    return pc.cast(found, pa.large_list(kind.value_field))


def _ends(lists: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """The begin and end of each list within the values of all."""
    offsets = lists.offsets.to_numpy()
    return offsets[:-1], offsets[1:]


def _rebuilt(lists: pa.Array, ends: np.ndarray, values: pa.Array) -> pa.Array:
    """Lists with other values: of each, from the end of the one before to ``ends``."""
    offsets = np.concatenate([[0], ends])
    mask = lists.is_null() if lists.null_count else None
    made = pa.LargeListArray.from_arrays(pa.array(offsets, pa.int64()), values, mask=mask)
    return pc.cast(made, pa.list_(values.type))


def _lengths(lists: object) -> pa.Array:
    return pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)


def _element(values: pa.Array | pa.ChunkedArray, index: int) -> pa.Array:
    if index >= 0:
        return pc.list_element(values, index)
    lists = _lists(values)
    begins, ends = _ends(lists)
    at = ends + index
    there = lists.is_valid().to_numpy(zero_copy_only=False)
    if bool(np.any(there & (at < begins))):
        raise IndexError(f"Index {index} is out of bounds of a list.")
    return lists.values.take(pa.array(at, mask=~there))


def _flattened(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    outer = _lists(values)
    inner = _lists(outer.flatten())
    per_list = np.concatenate([[0], np.cumsum(_lengths(inner))])
    ends = per_list[np.cumsum(_lengths(outer))]
    return _rebuilt(outer, ends, inner.flatten())


def _sorted(values: object, order: str, null_placement: str) -> pa.Array:
    lists = _lists(values)
    lengths = _lengths(lists)
    value = lists.flatten()
    table = pa.table(
        {"row": np.repeat(np.arange(len(lists)), lengths), "gap": _gaps(value), "value": value}
    )
    # A key of their own, because releases of pyarrow differ in how they are told where missing values go.
    gaps = "ascending" if null_placement == "at_end" else "descending"
    keys = [("row", "ascending"), ("gap", gaps), ("value", order)]
    return _rebuilt(
        lists,
        np.cumsum(lengths),
        table.take(pc.sort_indices(table, keys))["value"].combine_chunks(),
    )


def _gaps(values: object) -> pa.Array:
    """2 for a missing value, 1 for NaN, which stands beside those, and 0 for others."""
    missing, either = pc.is_null(values), pc.is_null(values, nan_is_null=True)
    return pc.add(missing.cast(pa.int8()), either.cast(pa.int8()))


def _of_pairs(values: pa.Array | pa.ChunkedArray, field: int) -> pa.Array:
    kind = values.type
    pairs = pa.types.is_list(kind) or pa.types.is_large_list(kind)
    if not pa.types.is_map(kind) and not (pairs and pa.types.is_struct(kind.value_type)):
        raise TypeError(f"expected a column of maps or of lists of pairs, this one is of {kind}.")
    lists = _lists(values)
    return _rebuilt(lists, np.cumsum(_lengths(lists)), pc.struct_field(lists.flatten(), field))


def _of_any_length(values: object) -> pa.Array:
    lists = _lists(values)
    return pc.cast(lists, pa.list_(lists.type.value_field))
