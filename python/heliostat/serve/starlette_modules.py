"""``import starlette`` alone is enough for ``starlette.requests.Request``, as programs for Ray have it.

There importing Serve imports Starlette's modules. Here they are imported when they are asked for, so that
processes without HTTP do without them.
"""

from __future__ import annotations

import contextlib
import importlib
from typing import Any


def _module(name: str) -> Any:
    if not name.startswith("_"):
        with contextlib.suppress(ModuleNotFoundError):
            return importlib.import_module(f"starlette.{name}")
    raise AttributeError(f"module 'starlette' has no attribute {name!r}")


def offer() -> None:
    """Have the package find its modules; without effect where it is not installed."""
    with contextlib.suppress(ImportError):
        starlette: Any = importlib.import_module("starlette")
        vars(starlette).setdefault("__getattr__", _module)
