"""Results as plain values of Python."""

from __future__ import annotations

from typing import Any

import numpy as np


def convert_numpy_to_python_primitives(obj: Any) -> Any:
    """Return a nest with numbers and lists of Python in the place of numpy's, as JSON takes them.

    Args:
        obj: A number, a string, an array, or dicts, lists and tuples of them.
    """
    if isinstance(obj, dict):
        return {key: convert_numpy_to_python_primitives(value) for key, value in obj.items()}
    if isinstance(obj, (list, tuple)):
        return type(obj)(convert_numpy_to_python_primitives(value) for value in obj)
    if isinstance(obj, np.ndarray):
        return obj.tolist()
    return obj.item() if isinstance(obj, np.generic) else obj
