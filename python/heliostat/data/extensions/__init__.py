"""Columns of arrays in DataFrames and tables, and the Arrow types of tensors and Python objects."""

from __future__ import annotations

from heliostat.data.extensions.tensor_extension import (  # pyarrow's type
    ArrowConversionError,
    ArrowPythonObjectType,
    ArrowTensorArray,
    ArrowTensorType,
    ArrowTensorTypeV2,
    ArrowVariableShapedTensorType,
    FixedShapeTensorFormat,
    FixedShapeTensorType,
    TensorArray,
    TensorDtype,
    column_needs_tensor_extension,
    create_arrow_fixed_shape_tensor_type,
    get_arrow_extension_tensor_types,
)

__all__ = [
    "ArrowConversionError",
    "ArrowPythonObjectType",
    "ArrowTensorArray",
    "ArrowTensorType",
    "ArrowTensorTypeV2",
    "ArrowVariableShapedTensorType",
    "FixedShapeTensorFormat",
    "TensorArray",
    "TensorDtype",
    "column_needs_tensor_extension",
    "create_arrow_fixed_shape_tensor_type",
    "get_arrow_extension_tensor_types",
]
