"""Iceberg's tables, by their catalogs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from heliostat.core.platform.extras import required

if TYPE_CHECKING:
    import pyiceberg


def iceberg_table(
    identifier: str, catalog_kwargs: dict[str, object] | None
) -> pyiceberg.table.Table:
    """The Iceberg table of that name in the catalog that ``load_catalog`` finds.

    Raises:
        ImportError: pyiceberg is not installed.
    """
    catalogs = required("pyiceberg.catalog", "Iceberg tables")
    return catalogs.load_catalog(**(catalog_kwargs or {})).load_table(identifier)
