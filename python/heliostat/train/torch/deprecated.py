"""Functions of Ray Train's first generation; each says what to write instead."""

from __future__ import annotations

from typing import Any, NoReturn


def _refuse(name: str, instead: str) -> NoReturn:
    raise DeprecationWarning(
        f"`heliostat.train.torch.{name}` belongs to the first generation of Ray Train and is not "
        f"available. {instead}"
    )


def accelerate(amp: bool = False) -> NoReturn:
    """Refused (DeprecationWarning): use ``torch.amp`` in the training function."""
    _refuse("accelerate", "Use torch.autocast and torch.amp.GradScaler in the training function.")


def prepare_optimizer(optimizer: Any) -> NoReturn:
    """Refused (DeprecationWarning): use the optimizer as it is."""
    _refuse("prepare_optimizer", "Use the optimizer as it is.")


def backward(tensor: Any) -> NoReturn:
    """Refused (DeprecationWarning): call ``backward()`` on the loss."""
    _refuse("backward", "Call `loss.backward()`.")
