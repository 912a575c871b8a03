"""Batches as TensorFlow's tensors, and a dataset as a ``tf.data.Dataset``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Union

import pyarrow as pa

from heliostat.core.platform.extras import required
from heliostat.data import missing, tensors

if TYPE_CHECKING:
    from types import ModuleType

    import numpy as np
    import tensorflow as tf

    from heliostat.data.dataset import Schema

# One column, whose tensors come as they are, or several, which come as a dict.
Columns = str | list[str]
Specs = Union["tf.TypeSpec", dict[str, "tf.TypeSpec"]]
Collate = Callable[[Mapping[str, "np.ndarray"]], Mapping[str, "Tensors"]]
Tensors = Union["tf.Tensor", dict[str, "tf.Tensor"]]


def tensorflow() -> ModuleType:
    """The package.

    Raises:
        ImportError: It is not installed.
    """
    return required("tensorflow", "TensorFlow's tensors")


def collator(dtypes: object) -> Collate:
    """Return the function that makes arrays into tensors of a type, or of one by column; None: as
    the arrays are.
    """
    tf = tensorflow()

    def collate(batch: Mapping[str, np.ndarray]) -> Mapping[str, Tensors]:
        return {
            name: _tensor(tf, array, dtypes[name] if isinstance(dtypes, Mapping) else dtypes)
            for name, array in batch.items()
        }

    return collate


def as_dataset(
    batches: Iterable[Mapping[str, np.ndarray]],
    schema: Callable[[], Schema | None],
    parts: list[tuple[Columns, Specs]],
) -> tf.data.Dataset:
    """A ``tf.data.Dataset`` of tuples with one member for each part: (its columns, their types).

    Types that are None are those of the schema. Each ``for`` over it is an epoch of the batches.

    Raises:
        ValueError: There is no column of a name, or TensorFlow has no tensors of its type, or nothing is
            known of the columns.
    """
    tf = tensorflow()
    known = schema() if any(spec is None for _, spec in parts) else None
    found = [
        (columns, _specs(tf, known, columns) if spec is None else spec) for columns, spec in parts
    ]

    def tuples() -> Iterator[tuple[Tensors, ...]]:
        for batch in batches:
            yield tuple(_chosen(tf, batch, columns, spec) for columns, spec in found)

    made = tf.data.Dataset.from_generator(tuples, output_signature=tuple(s for _, s in found))
    options = tf.data.Options()
    # The batches are this worker's share already.
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    return made.with_options(options)


def _chosen(
    tf: ModuleType, batch: Mapping[str, np.ndarray], columns: Columns, spec: Specs
) -> Tensors:
    if isinstance(columns, str):
        return _typed(tf, batch[columns], spec)
    return {name: _typed(tf, batch[name], spec[name]) for name in columns}


def _typed(tf: ModuleType, array: np.ndarray, spec: tf.TypeSpec) -> tf.Tensor | tf.RaggedTensor:
    if isinstance(spec, tf.RaggedTensorSpec):
        return tf.ragged.constant([row.tolist() for row in array], dtype=spec.dtype)
    return _tensor(tf, array, spec.dtype)


def _tensor(tf: ModuleType, array: np.ndarray, dtype: tf.DType | None) -> tf.Tensor:
    return tf.convert_to_tensor(array, dtype=dtype)


def _specs(tf: ModuleType, schema: Schema | None, columns: Columns) -> Specs:
    if schema is None:
        raise ValueError(f"to_tf: the dataset is empty: pass the tf.TypeSpec of {columns!r}.")
    if isinstance(columns, str):
        return _spec(tf, schema.base_schema, columns)
    return {name: _spec(tf, schema.base_schema, name) for name in columns}


def _spec(tf: ModuleType, schema: pa.Schema, name: str) -> tf.TypeSpec:
    if name not in schema.names:
        raise ValueError(f"to_tf: {missing.no_columns([name], schema.names)}")
    kind = schema.field(name).type
    if isinstance(kind, pa.FixedShapeTensorType):
        shape, element = (None, *kind.shape), kind.value_type
    elif isinstance(kind, tensors.VariableShapedTensorType):
        shape, element = (None,) * (kind.ndim + 1), kind.value_type
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        shape, element = (None, None), kind.value_type
    else:
        shape, element = (None,), kind
    try:
        dtype = tf.dtypes.as_dtype(element.to_pandas_dtype())
    except (TypeError, NotImplementedError) as error:
        raise ValueError(
            f"to_tf: TensorFlow has no tensors of column {name!r}, whose type is {kind}: make numbers "
            "of it, or drop it."
        ) from error
    if shape.count(None) > 1:  # the number of rows, and the lengths of each
        return tf.RaggedTensorSpec(shape, dtype=dtype)
    return tf.TensorSpec(shape, dtype=dtype, name=name)
