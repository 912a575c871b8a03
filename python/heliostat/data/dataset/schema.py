"""Names and types of a dataset's columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from heliostat.data import tensors

if TYPE_CHECKING:
    from heliostat.data.context import DataContext


class Schema:
    """The columns of a dataset.

    Args:
        base_schema: The ``pyarrow.Schema``.
        data_context: Has no effect.

    Examples:
        >>> import ray
        >>> schema = ray.data.from_items([{"name": "a", "size": 1}]).schema()
        >>> schema.names, [str(type_) for type_ in schema.types]
        (['name', 'size'], ['string', 'int64'])
    """

    def __init__(self, base_schema: pa.Schema, *, data_context: DataContext | None = None) -> None:
        self.base_schema = base_schema

    @property
    def names(self) -> list[str]:
        """The columns' names, in order."""
        return list(self.base_schema.names)

    @property
    def types(self) -> list[pa.DataType]:
        """Their Arrow types, in order."""
        return list(self.base_schema.types)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Schema) and bool(self.base_schema.equals(other.base_schema))

    def __hash__(self) -> int:
        return hash(tuple(self.names))

    def __len__(self) -> int:
        return len(self.base_schema)

    def __repr__(self) -> str:
        kinds = [type_name(kind) for kind in self.types]
        width = max([len("Column"), *map(len, self.names)]) + 2
        lines = [f"{'Column':<{width}}Type", f"{'------':<{width}}----"]
        lines += [f"{n:<{width}}{k}" for n, k in zip(self.names, kinds, strict=True)]
        return "\n".join(lines)


def type_name(kind: pa.DataType) -> str:
    """An Arrow type in words; those of tensors say shape and element."""
    if isinstance(kind, pa.FixedShapeTensorType):
        return f"ArrowTensorTypeV2(shape={tuple(kind.shape)}, dtype={kind.value_type})"
    if isinstance(kind, tensors.VariableShapedTensorType):
        return f"ArrowVariableShapedTensorType(ndim={kind.ndim}, dtype={kind.value_type})"
    if isinstance(kind, tensors.PythonObjectType):
        return "ArrowPythonObjectType()"
    return str(kind)
