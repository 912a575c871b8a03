"""Ax (needs the package ax-platform)."""

from __future__ import annotations

from heliostat.tune.search.ax.ax_search import AxSearch

__all__ = ["AxSearch"]
