"""Batches as torch tensors."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple, Union

import numpy as np

from heliostat.core.platform.extras import required
from heliostat.data import block, frames, tensors
from heliostat.data.collate_fn import ArrowBatchCollateFn, PandasBatchCollateFn
from heliostat.data.context import DataContext
from heliostat.data.iterate.transfer import Sent, to_gpu
from heliostat.data.iterate.zero_copy import Loan

if TYPE_CHECKING:
    import pyarrow as pa
    import torch

    from heliostat.data.aliases import Function, Value


Dtypes = Union["torch.dtype", dict[str, "torch.dtype"], None]  # of all columns, or by name
Make = Callable[["pa.Table", Loan | None], "Value"]

LENT_BYTES_MIN = 64 << 10  # smaller arrays are copied: a kept column of labels keeps no images


class _Writable:
    """A read-only array under a name that torch takes without a warning.

    It is written to only if a loan of its memory says that it may be.
    """

    def __init__(self, array: np.ndarray, loan: Loan | None) -> None:
        self._array, self._loan = array, loan  # keeps the memory
        about = dict(array.__array_interface__)
        about["data"] = (about["data"][0], False)
        self.__array_interface__ = about


def tensor_of(
    array: np.ndarray, dtype: torch.dtype | None, own: bool = True, loan: Loan | None = None
) -> torch.Tensor:
    """A tensor of an array; with ``own`` its memory is not the object store's, unless it is lent.

    Raises:
        TypeError: The array is of strings, bytes or times, which tensors cannot hold.
        RuntimeError: It is of arrays that differ in shape, of missing values, or of other objects.
    """
    torch = required("torch", "Batches of tensors")

    if array.dtype == object:
        array, own = _of_objects(array), False
    if array.dtype.kind in "USMm":
        raise TypeError(
            f"can't convert np.ndarray of type numpy.{array.dtype.type.__name__} to a tensor. {_ADVICE}"
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


_ADVICE = "Give iter_torch_batches a collate_fn that makes numbers of it, or drop or map the column before."


def _of_objects(array: np.ndarray) -> np.ndarray:
    """The objects as an array of numbers, or of strings.

    Raises:
        RuntimeError: They are neither.
    """
    made: np.ndarray | None = None
    if not any(value is None or isinstance(value, np.ndarray) for value in array):
        with contextlib.suppress(ValueError, TypeError, OverflowError):
            made = np.array(array.tolist())
    if made is None or made.dtype == object or made.ndim != 1:
        raise RuntimeError(
            "Numpy array of object dtype cannot be converted to a Torch Tensor: "
            f"{_what(array)}. {_ADVICE}"
        )
    return made


def _what(array: np.ndarray) -> str:
    kinds = sorted({type(value).__name__ for value in array})
    if kinds == ["ndarray"]:
        shapes = list(dict.fromkeys(value.shape for value in array))
        return f"its rows are arrays of the shapes {shapes[:3]}"
    return f"its rows are of the types {kinds[:5]}"


def tensors_of(
    table: pa.Table, dtypes: Dtypes, own: bool, loan: Loan | None = None
) -> dict[str, torch.Tensor]:
    """A dict of tensors for a table."""
    made = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        array = tensors.stacked(column)
        dtype = dtypes.get(name) if isinstance(dtypes, Mapping) else dtypes
        try:
            made[name] = tensor_of(array, dtype, own, loan)
        except (TypeError, RuntimeError) as error:
            raise type(error)(f"column {name!r}: {error}") from error
    return made


def default_device() -> str:
    """The first GPU of a training worker; the CPU otherwise."""
    own = os.environ.get("HELIOSTAT_TRAIN_GPU_INDICES", "")
    if not own:
        return "cpu"
    torch = required("torch", "Batches of tensors")

    return f"cuda:{own.split(',')[0]}" if torch.cuda.is_available() else "cpu"


def moved(batch: Value, device: str | torch.device, non_blocking: bool = False) -> Value:
    """The tensors in a batch on a device; what holds none stays as it is."""
    torch = required("torch", "Batches of tensors")

    if isinstance(batch, torch.Tensor):
        return batch.to(device, non_blocking=non_blocking)
    if isinstance(batch, Mapping):
        if _all_tensors(batch.values()):
            return {name: moved(value, device, non_blocking) for name, value in batch.items()}
        return batch
    if isinstance(batch, list | tuple) and batch and _all_tensors(batch):
        return type(batch)(moved(value, device, non_blocking) for value in batch)
    return batch


def _all_tensors(values: Iterable[object]) -> bool:
    torch = required("torch", "Batches of tensors")

    return all(
        isinstance(v, torch.Tensor)
        or (isinstance(v, list | tuple) and bool(v) and all(isinstance(x, torch.Tensor) for x in v))
        for v in values
    )


class Route(NamedTuple):
    """The steps from a table to the batch that the loop gets."""

    make: Make  # where batches are made in advance
    receive: Callable[[Sent], Value] | None = None  # in the loop's thread


def route(
    collate_fn: Function | None,
    dtypes: Dtypes,
    device: str | torch.device,
    pin_memory: bool,
    context: DataContext | None = None,
) -> Route:
    """Batches on a device, copied there beside the loop's work where it is a GPU."""
    transfer = to_gpu(device, lambda batch, target: moved(batch, target, pin_memory))
    if transfer is None:
        return Route(collator(collate_fn, dtypes, device, pin_memory, context=context))
    collate = collator(collate_fn, dtypes, device, pin_memory, stays=True, context=context)
    return Route(lambda table, loan: transfer.send(collate(table, loan)), transfer.receive)


def collator(
    collate_fn: Function | None,
    dtypes: Dtypes,
    device: str | torch.device,
    pin_memory: bool,
    stays: bool = False,
    context: DataContext | None = None,
) -> Make:
    """Return the function that makes a table into a batch for a device, given a loan of its memory
    or none.

    With ``stays`` the batch is not copied to the device yet. ``context`` has the dataset's settings.
    """
    on_cpu = str(device) == "cpu"

    def collate(table: pa.Table, loan: Loan | None) -> Value:
        if collate_fn is None:
            batch = tensors_of(table, dtypes, on_cpu and not pin_memory, loan)
        elif isinstance(collate_fn, ArrowBatchCollateFn):
            batch = collate_fn(table)
        elif isinstance(collate_fn, PandasBatchCollateFn):
            batch = collate_fn(frames.to_pandas(table, context))
        else:
            batch = collate_fn(block.to_numpy(table))
        if pin_memory:
            batch = _pinned(batch)
        if stays:
            return batch
        return batch if on_cpu and _is_plain(batch) else moved(batch, device, pin_memory)

    return collate


def _is_plain(batch: object) -> bool:
    return type(batch) is dict or not isinstance(batch, Mapping)


def _pinned(batch: Value) -> Value:
    torch = required("torch", "Batches of tensors")

    if isinstance(batch, torch.Tensor):
        return batch.pin_memory()
    if isinstance(batch, Mapping):
        return {name: _pinned(value) for name, value in batch.items()}
    if isinstance(batch, list | tuple):
        return type(batch)(_pinned(value) for value in batch)
    return batch
