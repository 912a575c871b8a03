"""Types of columns: pyarrow's, under the names of ``DataType``."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

__all__ = ["DataType"]


class DataType:
    """``DataType.int64()`` and the like give pyarrow's types, which every place takes that wants one."""

    def __init__(self) -> None:
        raise TypeError("DataType has no instances here: use DataType.int64() or a pyarrow type.")

    int8, int16, int32, int64 = pa.int8, pa.int16, pa.int32, pa.int64
    uint8, uint16, uint32, uint64 = pa.uint8, pa.uint16, pa.uint32, pa.uint64
    float16, float32, float64 = pa.float16, pa.float32, pa.float64
    string, binary, bool = pa.string, pa.binary, pa.bool_
    list, struct, map, timestamp = pa.list_, pa.struct, pa.map_, pa.timestamp

    @staticmethod
    def from_arrow(arrow_type: Any) -> Any:
        """The type itself."""
        return arrow_type

    @staticmethod
    def from_numpy(dtype: Any) -> Any:
        """The type of an array's elements."""
        import numpy as np

        return pa.from_numpy_dtype(np.dtype(dtype))
