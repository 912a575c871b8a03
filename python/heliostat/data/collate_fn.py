"""Functions that turn a batch into what the training loop wants; pass an instance as
``collate_fn``.
"""

from __future__ import annotations

import abc
from collections.abc import Mapping
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd  # noqa: F401 # stands within quotes below
    import pyarrow as pa
    import torch

    from heliostat.data.aliases import Value


__all__ = [
    "ArrowBatchCollateFn",
    "CollateFn",
    "DefaultCollateFn",
    "NumpyBatchCollateFn",
    "PandasBatchCollateFn",
]

T = TypeVar("T")


class CollateFn(abc.ABC, Generic[T]):
    """Base class. Derive from one of the three below, which name the batch's format.

    Examples:
        >>> import ray
        >>> from ray.data.collate_fn import CollateFn, NumpyBatchCollateFn
        >>> class Total(NumpyBatchCollateFn):
        ...     def __call__(self, batch):
        ...         return int(batch["id"].sum())
        >>> issubclass(Total, CollateFn)
        True
        >>> list(ray.data.range(4).iter_torch_batches(batch_size=2, collate_fn=Total()))
        [1, 5]
    """

    @abc.abstractmethod
    def __call__(self, batch: T) -> Value:
        """Return what the loop gets."""


class ArrowBatchCollateFn(CollateFn["pa.Table"]):
    """Gets a ``pyarrow.Table``.

    Examples:
        >>> import ray
        >>> from ray.data.collate_fn import ArrowBatchCollateFn
        >>> class Sums(ArrowBatchCollateFn):
        ...     def __call__(self, batch):
        ...         return sum(batch["id"].to_pylist())
        >>> list(ray.data.range(4).iter_torch_batches(batch_size=2, collate_fn=Sums()))
        [1, 5]
    """


class NumpyBatchCollateFn(CollateFn[dict[str, "np.ndarray"]]):
    """Gets a dict of arrays.

    Examples:
        >>> import ray
        >>> import torch
        >>> from ray.data.collate_fn import NumpyBatchCollateFn
        >>> class Halves(NumpyBatchCollateFn):
        ...     def __call__(self, batch):
        ...         return torch.as_tensor(batch["id"] / 2)
        >>> list(ray.data.range(2).iter_torch_batches(batch_size=2, collate_fn=Halves()))
        [tensor([0.0000, 0.5000], dtype=torch.float64)]
    """


class PandasBatchCollateFn(CollateFn["pd.DataFrame"]):
    """Gets a ``pandas.DataFrame``.

    Examples:
        >>> import ray
        >>> import torch
        >>> from ray.data.collate_fn import PandasBatchCollateFn
        >>> class Table(PandasBatchCollateFn):
        ...     def __call__(self, batch):
        ...         return torch.as_tensor(batch.fillna(0).to_numpy(copy=True))
        >>> list(ray.data.range(2).iter_torch_batches(batch_size=2, collate_fn=Table()))
        [tensor([[0],
                [1]])]
    """


class DefaultCollateFn(ArrowBatchCollateFn):
    """A dict of tensors, which is what happens without a ``collate_fn``.

    Args:
        dtypes: One torch dtype for all columns, or a dict by column.
        device: Where the tensors go. Default: the CPU.
        pin_memory: Make them in pinned memory.

    Examples:
        >>> import ray
        >>> import torch
        >>> from ray.data.collate_fn import DefaultCollateFn
        >>> halves = DefaultCollateFn(dtypes=torch.float16)
        >>> next(iter(ray.data.range(2).iter_torch_batches(batch_size=2, collate_fn=halves)))["id"]
        tensor([0., 1.], dtype=torch.float16)
    """

    def __init__(
        self,
        dtypes: torch.dtype | dict[str, torch.dtype] | None = None,
        device: str | torch.device | None = None,
        pin_memory: bool = False,
        **_: object,
    ) -> None:
        self.dtypes = dtypes
        self.device = device
        self.pin_memory = pin_memory

    def __call__(self, batch: pa.Table) -> Mapping[str, torch.Tensor]:
        """Return tensors by column name."""
        from heliostat.data.iterate import torch_batches

        collate = torch_batches.collator(None, self.dtypes, self.device or "cpu", self.pin_memory)
        made: Mapping[str, torch.Tensor] = collate(batch, None)
        return made
