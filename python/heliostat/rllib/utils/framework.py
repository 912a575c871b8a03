"""Imports of the framework of modules, as programs written for RLlib do them."""

from __future__ import annotations

from typing import Any


def try_import_torch(error: bool = False) -> tuple[Any, Any]:
    """Return the modules ``torch`` and ``torch.nn``; ``(None, None)`` where torch is not installed.

    Args:
        error: Whether that is an error. Default False.

    Raises:
        ImportError: torch is not installed, and ``error`` is True.
    """
    try:
        import torch
    except ImportError:
        if error:
            raise
        return None, None
    return torch, torch.nn
