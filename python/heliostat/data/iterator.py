"""The names that programs import from here."""

from __future__ import annotations

from heliostat.data.iterate.iterator import DataIterator

DatasetIterator = DataIterator

__all__ = ["DataIterator", "DatasetIterator"]
