"""Names that programs written for RLlib import from here."""

from __future__ import annotations

import importlib
from typing import Any


def try_import_pyspiel(error: bool = False) -> Any:
    """Return the module ``pyspiel``, or None where it is not installed.

    Args:
        error: Raise where it is not. Default False.

    Raises:
        ImportError: It is not installed.
    """
    return _imported("pyspiel", error)


def try_import_open_spiel(error: bool = False) -> Any:
    """Return the module ``open_spiel``, or None where it is not installed.

    Args:
        error: Raise where it is not. Default False.

    Raises:
        ImportError: It is not installed.
    """
    return _imported("open_spiel", error)


def _imported(name: str, error: bool) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        if error:
            raise ImportError(f"This needs {name}: pip install open_spiel") from None
        return None
