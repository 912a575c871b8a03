"""Packages whose names are imported when they are first used: torch and its like take seconds."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Collection, Mapping
from typing import Any

from heliostat.core.platform.extras import explained


def names(
    package: str,
    homes: Mapping[str, str],
    modules: Collection[str] = (),
    extra: str = "train",
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of a package, given the module of each of its names.

    Args:
        package: The package.
        homes: The module of each name: below the package, or as a whole path.
        modules: Modules of the package that are public themselves.
        extra: Named where a library is missing.
    """

    def get(name: str) -> Any:
        if name in modules:
            return importlib.import_module(f"{package}.{name}")
        home = homes.get(name)
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = home if home.startswith("heliostat.") else f"{package}.{home}"
        try:
            value = getattr(importlib.import_module(module), name)
        except ModuleNotFoundError as error:
            raise explained(error, f"{package}.{name}", extra) from error
        setattr(sys.modules[package], name, value)
        return value

    def listed() -> list[str]:
        return sorted({*homes, *modules, *sys.modules[package].__all__})

    return get, listed
