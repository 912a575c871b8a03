"""Values packed into text, as recorded columns have them."""

from __future__ import annotations

import base64
import importlib.util
import pickle
from typing import Any

import numpy as np

from heliostat import cloudpickle
from heliostat.core.platform.extras import required

_WHO = "recorded columns that are compressed (pip install lz4)"


def compression_supported() -> bool:
    """Return whether ``lz4`` is installed, without which nothing is packed."""
    return importlib.util.find_spec("lz4") is not None


def pack(data: Any) -> Any:
    """Return a value as text: pickled, compressed with lz4, in base64. Without ``lz4`` the value itself."""
    if not compression_supported():
        return data
    frame = required("lz4.frame", _WHO)
    return base64.b64encode(frame.compress(cloudpickle.dumps(data))).decode("ascii")


def pack_if_needed(data: Any) -> Any:
    """Return an array as text, and other values as they are."""
    return pack(data) if isinstance(data, np.ndarray) else data


def unpack(data: Any) -> Any:
    """Return the value of what :func:`pack` returned.

    Raises:
        ImportError: ``lz4`` is not installed.
    """
    frame = required("lz4.frame", _WHO)
    return pickle.loads(frame.decompress(base64.b64decode(data)))


def unpack_if_needed(data: Any) -> Any:
    """Return the value of text, and other values as they are."""
    return unpack(data) if is_compressed(data) else data


def is_compressed(data: Any) -> bool:
    """Return whether a value is packed."""
    return isinstance(data, (bytes, str))
