"""``ray.cloudpickle.cloudpickle``, which pickles that Ray wrote name for what makes functions and classes.

Those lie in checkpoints, in states of preprocessors and in searches of programs that ran on Ray. Their names
are those of the package cloudpickle, which Ray carries a copy of.
"""

from __future__ import annotations

import importlib
from typing import Any

from heliostat import cloudpickle

_package = importlib.import_module("cloudpickle.cloudpickle")


def __getattr__(name: str) -> Any:
    # The pickler is ours: it keeps where code is from.
    return getattr(cloudpickle if name in cloudpickle.__all__ else _package, name)
