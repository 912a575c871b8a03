"""Functions of Ray Train's first generation; each says what to write instead."""

from __future__ import annotations

from typing import Any, NoReturn


def _refuse(name: str, instead: str) -> NoReturn:
    raise DeprecationWarning(
        f"`heliostat.train.torch.{name}` belongs to the first generation of Ray Train and is not "
        f"available. {instead}"
    )


def accelerate(amp: bool = False) -> NoReturn:
    """Refused: use ``torch.autocast`` and ``torch.amp.GradScaler`` in the training function.

    Args:
        amp: Has no effect.

    Raises:
        DeprecationWarning: Always.
    """
    _refuse("accelerate", "Use torch.autocast and torch.amp.GradScaler in the training function.")


def prepare_optimizer(optimizer: Any) -> NoReturn:
    """Refused: use the optimizer as it is.

    Args:
        optimizer: Has no effect.

    Raises:
        DeprecationWarning: Always.
    """
    _refuse("prepare_optimizer", "Use the optimizer as it is.")


def backward(tensor: Any) -> NoReturn:
    """Refused: call ``backward()`` on the loss.

    Args:
        tensor: Has no effect.

    Raises:
        DeprecationWarning: Always.
    """
    _refuse("backward", "Call `loss.backward()`.")
