"""Packages that some formats need and that are not installed with the library."""

from __future__ import annotations

import importlib
from typing import Any


def required(module: str, purpose: str, package: str | None = None) -> Any:
    """The module, imported.

    Args:
        module: Its name.
        purpose: What needs it, for the error.
        package: What to install. Default: the module's name.

    Raises:
        ImportError: It is not installed; the message says what to install.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        name = package or module
        raise ImportError(
            f"{purpose} need the package {name!r}, which is not installed ({error}). Install it with "
            f"`pip install {name}`."
        ) from error


def iceberg_table(identifier: str, catalog_kwargs: dict[str, Any] | None) -> Any:
    """The Iceberg table of that name in the catalog that ``load_catalog`` finds."""
    catalogs = required("pyiceberg.catalog", "Iceberg tables", "pyiceberg")
    return catalogs.load_catalog(**(catalog_kwargs or {})).load_table(identifier)
