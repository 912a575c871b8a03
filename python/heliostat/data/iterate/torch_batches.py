"""Batches as torch tensors."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from heliostat.data import block
from heliostat.data.collate_fn import ArrowBatchCollateFn, PandasBatchCollateFn
from heliostat.data.iterate.lending import Loan

LENT_BYTES_MIN = 64 << 10  # smaller arrays are copied: a kept column of labels keeps no images


class _Writable:
    """A read-only array under a name that torch takes without a warning.

    It is written to only if a loan of its memory says that it may be.
    """

    def __init__(self, array: Any, loan: Loan | None) -> None:
        self._array, self._loan = array, loan  # keeps the memory
        about = dict(array.__array_interface__)
        about["data"] = (about["data"][0], False)
        self.__array_interface__ = about


def tensor_of(array: Any, dtype: Any, own: bool = True, loan: Loan | None = None) -> Any:
    """A tensor of an array; with ``own`` its memory is not the object store's, unless it is lent.

    Raises:
        TypeError: The array is of strings or objects, which tensors cannot hold.
    """
    import torch

    if array.dtype == object or array.dtype.kind in "USMm":
        raise TypeError(
            f"can't convert np.ndarray of type {_what(array)} to a tensor. Give iter_torch_batches a "
            "collate_fn, or select or map the column before."
        )
    if not array.flags.c_contiguous:
        array, own = np.ascontiguousarray(array), False
    if array.flags.writeable:
        tensor, own = torch.from_numpy(array), False
    else:
        if loan is not None and array.nbytes >= LENT_BYTES_MIN:
            own = False
        tensor = torch.from_numpy(np.asarray(_Writable(array, loan)))
    if dtype is not None and dtype != tensor.dtype:
        return tensor.to(dtype)
    return tensor.clone() if own else tensor


def _what(array: Any) -> str:
    if array.dtype != object or not len(array):
        return str(array.dtype)
    first = type(array[0])
    if first is np.ndarray:
        return f"numpy.object_ (arrays of different shapes, such as {array[0].shape})"
    return "numpy.str_" if first is str else f"numpy.object_ ({first.__name__})"


def tensors_of(table: Any, dtypes: Any, own: bool, loan: Loan | None = None) -> dict[str, Any]:
    """A dict of tensors for a table."""
    made = {}
    for name, array in block.to_numpy(table).items():
        dtype = dtypes.get(name) if isinstance(dtypes, Mapping) else dtypes
        made[name] = tensor_of(array, dtype, own, loan)
    return made


def default_device() -> Any:
    """The first GPU of a training worker; the CPU otherwise."""
    own = os.environ.get("HELIOSTAT_TRAIN_GPU_INDICES", "")
    if not own:
        return "cpu"
    import torch

    return f"cuda:{own.split(',')[0]}" if torch.cuda.is_available() else "cpu"


def moved(batch: Any, device: Any, non_blocking: bool = False) -> Any:
    """The tensors in a batch on a device; what holds none stays as it is."""
    import torch

    if isinstance(batch, torch.Tensor):
        return batch.to(device, non_blocking=non_blocking)
    if isinstance(batch, Mapping):
        if _all_tensors(batch.values()):
            return {name: moved(value, device, non_blocking) for name, value in batch.items()}
        return batch
    if isinstance(batch, list | tuple) and batch and _all_tensors(batch):
        return type(batch)(moved(value, device, non_blocking) for value in batch)
    return batch


def _all_tensors(values: Any) -> bool:
    import torch

    return all(
        isinstance(v, torch.Tensor)
        or (isinstance(v, list | tuple) and bool(v) and all(isinstance(x, torch.Tensor) for x in v))
        for v in values
    )


def collator(
    collate_fn: Any, dtypes: Any, device: Any, pin_memory: bool
) -> Callable[[Any, Loan | None], Any]:
    """What makes a table into what the loop gets, given a loan of its memory or none."""
    on_cpu = str(device) == "cpu"

    def collate(table: Any, loan: Loan | None) -> Any:
        if collate_fn is None:
            batch = tensors_of(table, dtypes, on_cpu and not pin_memory, loan)
        elif isinstance(collate_fn, ArrowBatchCollateFn):
            batch = collate_fn(table)
        elif isinstance(collate_fn, PandasBatchCollateFn):
            batch = collate_fn(block.to_pandas(table))
        else:
            batch = collate_fn(block.to_numpy(table))
        if pin_memory:
            batch = _pinned(batch)
        return batch if on_cpu and _is_plain(batch) else moved(batch, device, pin_memory)

    return collate


def _is_plain(batch: Any) -> bool:
    return type(batch) is dict or not isinstance(batch, Mapping)


def _pinned(batch: Any) -> Any:
    import torch

    if isinstance(batch, torch.Tensor):
        return batch.pin_memory()
    if isinstance(batch, Mapping):
        return {name: _pinned(value) for name, value in batch.items()}
    if isinstance(batch, list | tuple):
        return type(batch)(_pinned(value) for value in batch)
    return batch
