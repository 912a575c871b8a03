"""``ray.data.util.torch_utils``: tensors of batches, which collate functions of programs make with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from typing import Any

from heliostat.data import block as blocks
from heliostat.data.iterate import torch_batches

__all__ = [
    "DEFAULT_TENSOR_NON_BLOCKING_TRANSFER",
    "arrow_batch_to_tensors",
    "convert_ndarray_batch_to_torch_tensor_batch",
    "convert_ndarray_to_torch_tensor",
    "move_tensors_to_device",
]

DEFAULT_TENSOR_NON_BLOCKING_TRANSFER = True


def convert_ndarray_to_torch_tensor(
    ndarray: Any, dtype: Any = None, device: Any = None, pin_memory: bool = False
) -> Any:
    """Return an array as a tensor.

    Args:
        ndarray: Of numbers.
        dtype: Of torch. Default: as the array.
        device: Where the tensor is to be. Default: the CPU.
        pin_memory: Put it into pinned memory, if a GPU is there.

    Raises:
        TypeError: The array is of strings, bytes or times.
        RuntimeError: It is of objects that are not numbers.
    """
    tensor = torch_batches.tensor_of(ndarray, dtype)
    if pin_memory and tensor.device.type == "cpu":
        tensor = tensor.pin_memory()
    return tensor if device is None else tensor.to(device)


def convert_ndarray_batch_to_torch_tensor_batch(
    ndarrays: Any, dtypes: Any = None, device: Any = None, pin_memory: bool = False
) -> Any:
    """Return an array as a tensor, or a dict of arrays as a dict of tensors.

    Args:
        ndarrays: An array, or a dict of them.
        dtypes: Of torch, or a dict of them by column; a column that is not in it is a KeyError.
        device: Where the tensors are to be. Default: the CPU.
        pin_memory: Put them into pinned memory, if a GPU is there.
    """
    if isinstance(ndarrays, Mapping):
        return {
            name: convert_ndarray_to_torch_tensor(
                array,
                dtypes[name] if isinstance(dtypes, Mapping) else dtypes,
                device,
                pin_memory,
            )
            for name, array in ndarrays.items()
        }
    if isinstance(dtypes, Mapping):
        if len(dtypes) != 1:
            raise ValueError(f"One array has one dtype, and dtypes={dtypes!r} has {len(dtypes)}.")
        dtypes = next(iter(dtypes.values()))
    return convert_ndarray_to_torch_tensor(ndarrays, dtypes, device, pin_memory)


def arrow_batch_to_tensors(
    batch: Any,
    dtypes: Any = None,
    combine_chunks: bool = False,
    pin_memory: bool = False,
    threadpool: Executor | None = None,
) -> dict[str, Any]:
    """Return the columns of a table as tensors.

    Args:
        batch: A ``pyarrow.Table``.
        dtypes: Of torch, or a dict of them by column. Default: as the columns.
        combine_chunks: Return one tensor a column. Default: a list of them, one for each chunk of the table.
        pin_memory: Put them into pinned memory, if a GPU is there.
        threadpool: Without effect: columns become tensors one after the other.
    """
    if combine_chunks:
        arrays = blocks.to_numpy(blocks.joined(batch))
        return dict(
            convert_ndarray_batch_to_torch_tensor_batch(arrays, dtypes, pin_memory=pin_memory)
        )
    made: dict[str, list[Any]] = {name: [] for name in batch.column_names}
    for name in batch.column_names:
        dtype = dtypes[name] if isinstance(dtypes, Mapping) else dtypes
        for chunk in batch.column(name).chunks:
            array = blocks.to_numpy(batch.select([name]).from_arrays([chunk], names=[name]))[name]
            made[name].append(convert_ndarray_to_torch_tensor(array, dtype, pin_memory=pin_memory))
    return made


def move_tensors_to_device(
    batch: Any,
    device: Any = None,
    non_blocking: bool = DEFAULT_TENSOR_NON_BLOCKING_TRANSFER,
    concat: bool = True,
) -> Any:
    """Return a tensor, or a list, tuple or dict of tensors, on a device.

    Args:
        batch: Where lists of tensors are in a list or a dict, each of them becomes one tensor.
        device: Default: each stays where it is.
        non_blocking: Do not wait for the copies.
        concat: False leaves inner lists lists.

    Raises:
        ValueError: There is something else than tensors in it.
    """
    import torch

    def moved(tensor: Any) -> Any:
        return tensor if device is None else tensor.to(device, non_blocking=non_blocking)

    def entry(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return moved(value)
        if isinstance(value, list | tuple) and all(isinstance(v, torch.Tensor) for v in value):
            if not concat:
                return type(value)(moved(v) for v in value)
            return moved(torch.cat(list(value)) if len(value) != 1 else value[0])
        raise ValueError(f"The batch has {type(value).__name__} where there should be tensors.")

    if isinstance(batch, torch.Tensor):
        return moved(batch)
    if isinstance(batch, Mapping):
        return {name: entry(value) for name, value in batch.items()}
    if isinstance(batch, Sequence) and not isinstance(batch, str):
        return type(batch)(entry(value) for value in batch)  # type: ignore[call-arg] # a list or a tuple
    raise ValueError(f"The batch is {type(batch).__name__}, not tensors.")
