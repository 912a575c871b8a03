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

    Examples:
        >>> import torch
        >>> from ray.train.torch import accelerate
        >>> try:
        ...     accelerate(amp=True)
        ... except DeprecationWarning:
        ...     with torch.autocast("cpu", dtype=torch.bfloat16):
        ...         print((torch.ones(2, 2) @ torch.ones(2, 2)).dtype)
        torch.bfloat16
    """
    _refuse("accelerate", "Use torch.autocast and torch.amp.GradScaler in the training function.")


def prepare_optimizer(optimizer: Any) -> NoReturn:
    """Refused: use the optimizer as it is.

    Args:
        optimizer: Has no effect.

    Raises:
        DeprecationWarning: Always.

    Examples:
        >>> import torch
        >>> from ray.train.torch import prepare_optimizer
        >>> optimizer = torch.optim.SGD([torch.zeros(1)], lr=0.1)
        >>> try:
        ...     optimizer = prepare_optimizer(optimizer)
        ... except DeprecationWarning:
        ...     print("leave the line out")
        leave the line out
    """
    _refuse("prepare_optimizer", "Use the optimizer as it is.")


def backward(tensor: Any) -> NoReturn:
    """Refused: call ``backward()`` on the loss.

    Args:
        tensor: Has no effect.

    Raises:
        DeprecationWarning: Always.

    Examples:
        >>> import torch
        >>> from ray.train.torch import backward
        >>> loss = torch.ones(1, requires_grad=True).sum()
        >>> try:
        ...     backward(loss)
        ... except DeprecationWarning:
        ...     loss.backward()
    """
    _refuse("backward", "Call `loss.backward()`.")
