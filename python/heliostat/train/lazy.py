"""Packages whose names are imported when they are first used: torch and its like take seconds."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any

from heliostat.core.platform.extras import explained


def names(
    package: str, homes: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of a package, given the module of each of its names."""

    def get(name: str) -> Any:
        home = homes.get(name)
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        try:
            value = getattr(importlib.import_module(f"{package}.{home}"), name)
        except ModuleNotFoundError as error:
            raise explained(error, f"{package}.{name}", "train") from error
        setattr(sys.modules[package], name, value)
        return value

    return get, lambda: sorted(homes)
