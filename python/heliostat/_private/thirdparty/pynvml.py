"""``ray._private.thirdparty.pynvml``: the package ``nvidia-ml-py``, of which Ray has a copy."""

from __future__ import annotations

import importlib
from typing import Any

try:
    _installed = importlib.import_module("pynvml")
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "ray._private.thirdparty.pynvml is the package nvidia-ml-py in Heliostat, and it is not installed "
        "here: `pip install nvidia-ml-py`.",
        name=error.name,
    ) from error


def __getattr__(name: str) -> Any:
    return getattr(_installed, name)
