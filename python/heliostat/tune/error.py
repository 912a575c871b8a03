"""What goes wrong with a search as a whole."""

from __future__ import annotations


class TuneError(Exception):
    """A search cannot go on, or was asked for what makes no sense."""
