"""Optimizers of Nevergrad (needs the package nevergrad)."""

from __future__ import annotations

from heliostat.tune.search.nevergrad.nevergrad_search import NevergradSearch

__all__ = ["NevergradSearch"]
