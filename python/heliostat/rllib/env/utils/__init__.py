"""Names that programs written for RLlib import from here."""

from __future__ import annotations

from typing import Any


def try_import_pyspiel(error: bool = False) -> Any:
    """Return the module ``pyspiel``, or None where it is not installed.

    Args:
        error: Raise where it is not. Default False.

    Raises:
        ImportError: It is not installed.
    """
    try:
        import pyspiel
    except ImportError:
        if error:
            raise ImportError("This needs pyspiel: pip install open_spiel") from None
        return None
    return pyspiel


def try_import_open_spiel(error: bool = False) -> Any:
    """Return the module ``open_spiel``, or None where it is not installed.

    Args:
        error: Raise where it is not. Default False.

    Raises:
        ImportError: It is not installed.
    """
    try:
        import open_spiel
    except ImportError:
        if error:
            raise ImportError("This needs open_spiel: pip install open_spiel") from None
        return None
    return open_spiel
