"""Backends and reductions of collective groups."""

from __future__ import annotations

from enum import Enum

__all__ = ["Backend", "ReduceOp"]


class Backend(str):
    """The name of a backend, in any case: ``gloo`` for memory of the CPU, ``nccl`` for GPUs.

    Args:
        name: ``"gloo"`` or ``"nccl"``, in any case.

    Examples:
        >>> from ray.util.collective.types import Backend
        >>> Backend("GLOO") == Backend.GLOO
        True
    """

    NCCL = "NCCL"
    GLOO = "GLOO"
    UNRECOGNIZED = "unrecognized"

    def __new__(cls, name: str) -> Backend:
        """Check the name.

        Raises:
            ValueError: there is no such backend.
        """
        if str(name).upper() not in (cls.NCCL, cls.GLOO):
            raise ValueError(f"Backend {name!r} is not one of 'gloo' and 'nccl'.")
        return super().__new__(cls, str(name).upper())


class ReduceOp(Enum):
    """The operation that makes one tensor of those of the ranks, element by element.

    Examples:
        >>> from ray.util.collective.types import ReduceOp
        >>> [op.name for op in ReduceOp]
        ['SUM', 'PRODUCT', 'MIN', 'MAX']
    """

    SUM = 0
    PRODUCT = 1
    MIN = 2
    MAX = 3
