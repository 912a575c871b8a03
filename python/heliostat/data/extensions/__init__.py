"""Columns of arrays in DataFrames and tables, and the Arrow types of tensors and Python objects."""

from __future__ import annotations

from heliostat.data.extensions.object_extension import (
    ArrowPythonObjectArray,
    ArrowPythonObjectScalar,
    PythonObjectArray,
    PythonObjectDtype,
)
from heliostat.data.extensions.tensor_extension import (  # pyarrow's type
    ArrowConversionError,
    ArrowPythonObjectType,
    ArrowTensorArray,
    ArrowTensorType,
    ArrowTensorTypeV2,
    ArrowVariableShapedTensorArray,
    ArrowVariableShapedTensorType,
    FixedShapeTensorFormat,
    FixedShapeTensorType,
    TensorArray,
    TensorArrayElement,
    TensorDtype,
    column_needs_tensor_extension,
    create_arrow_fixed_shape_tensor_type,
    get_arrow_extension_tensor_types,
)

__all__ = [
    "ArrowConversionError",
    "ArrowPythonObjectArray",
    "ArrowPythonObjectScalar",
    "ArrowPythonObjectType",
    "ArrowTensorArray",
    "ArrowTensorType",
    "ArrowTensorTypeV2",
    "ArrowVariableShapedTensorArray",
    "ArrowVariableShapedTensorType",
    "FixedShapeTensorFormat",
    "FixedShapeTensorType",
    "PythonObjectArray",
    "PythonObjectDtype",
    "TensorArray",
    "TensorArrayElement",
    "TensorDtype",
    "column_needs_tensor_extension",
    "create_arrow_fixed_shape_tensor_type",
    "get_arrow_extension_tensor_types",
]
