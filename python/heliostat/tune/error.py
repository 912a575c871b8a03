"""What goes wrong with a search as a whole."""

from __future__ import annotations


class TuneError(Exception):
    """A search cannot go on, or was asked for what makes no sense."""


class TuneValueError(TuneError, ValueError):
    """A search ended with a ``ValueError``, such as that of a scheduler that lacks its metric."""
