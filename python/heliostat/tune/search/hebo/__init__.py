"""HEBO (needs the package HEBO)."""

from __future__ import annotations

from heliostat.tune.search.hebo.hebo_search import HEBOSearch

__all__ = ["HEBOSearch"]
