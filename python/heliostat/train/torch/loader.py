"""``prepare_data_loader``."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from heliostat.train.context import current_session
from heliostat.train.torch.device import get_device

if TYPE_CHECKING:
    import torch
    from torch.utils.data import DataLoader


def prepare_data_loader(
    data_loader: DataLoader[Any],
    add_dist_sampler: bool = True,
    move_to_device: bool = True,
    auto_transfer: bool = True,
) -> Any:
    """Give each worker its part of a data loader's rows, and move batches to its device.

    Args:
        data_loader: A ``torch.utils.data.DataLoader``.
        add_dist_sampler: Split map-style datasets with a ``DistributedSampler`` when there is more
            than one worker; a shuffling loader keeps shuffling. Default True.
        move_to_device: Batches arrive on the worker's device. Default True.
        auto_transfer: On a GPU, copy the next batch while the current one is in use. Default True.

    Returns:
        A loader; ``.sampler.set_epoch(epoch)`` makes it shuffle anew in each epoch.

    Raises:
        RuntimeError: Not called in a training function.

    Examples:
        >>> import torch
        >>> from ray.train import ScalingConfig
        >>> from ray.train.torch import TorchTrainer, prepare_data_loader
        >>> def work():
        ...     rows = torch.utils.data.TensorDataset(torch.arange(8))
        ...     loader = prepare_data_loader(torch.utils.data.DataLoader(rows, batch_size=2))
        ...     return [batch[0].tolist() for batch in loader]
        >>> TorchTrainer(work, scaling_config=ScalingConfig(num_workers=2)).fit().return_value
        [[0, 2], [4, 6]]
    """
    context = current_session("prepare_data_loader").context
    if context.get_world_size() > 1 and add_dist_sampler and _may_split(data_loader):
        data_loader = _split(data_loader, context.get_world_size(), context.get_world_rank())
    if not move_to_device:
        return data_loader
    device = get_device()
    if device.type == "cpu":
        return data_loader
    return DeviceLoader(data_loader, device, auto_transfer)


def _may_split(loader: DataLoader[Any]) -> bool:
    from torch.utils.data import DistributedSampler, IterableDataset, Sampler
    from torch.utils.data.sampler import RandomSampler, SequentialSampler

    if isinstance(loader.dataset, IterableDataset) or loader.batch_size is None:
        return False
    sampler: Sampler[Any] | Any = loader.sampler
    if isinstance(sampler, DistributedSampler):
        return False
    return isinstance(sampler, RandomSampler | SequentialSampler)


def _split(loader: DataLoader[Any], world_size: int, rank: int) -> DataLoader[Any]:
    from torch.utils.data import DataLoader, DistributedSampler
    from torch.utils.data.sampler import SequentialSampler

    shuffle = not isinstance(loader.sampler, SequentialSampler)
    generator = getattr(loader.sampler, "generator", None)
    sampler: Any = DistributedSampler(
        loader.dataset,
        num_replicas=world_size,
        rank=rank,
        shuffle=shuffle,
        seed=generator.initial_seed() % (1 << 31) if generator is not None else 0,
        drop_last=False,
    )
    options: dict[str, Any] = {
        "batch_size": loader.batch_size,
        "sampler": sampler,
        "num_workers": loader.num_workers,
        "collate_fn": loader.collate_fn,
        "pin_memory": loader.pin_memory,
        "drop_last": loader.drop_last,
        "timeout": loader.timeout,
        "worker_init_fn": _seeded(loader.worker_init_fn, loader.generator),
        "generator": loader.generator,
        "multiprocessing_context": loader.multiprocessing_context,
    }
    if loader.num_workers > 0:
        options["prefetch_factor"] = loader.prefetch_factor
        options["persistent_workers"] = loader.persistent_workers
    return DataLoader(loader.dataset, **options)


def _seeded(
    init: Callable[[int], None] | None, generator: torch.Generator | None
) -> Callable[[int], None] | None:
    """With ``enable_reproducibility``, loader processes seed `random` and numpy from torch."""
    from heliostat.train.torch.reproducibility import is_enabled

    if not is_enabled():
        return init

    def seed(worker_id: int) -> None:
        import torch

        value = torch.initial_seed() % (1 << 32)
        random.seed(value)
        try:
            import numpy
        except ImportError:
            pass
        else:
            numpy.random.seed(value)
        if init is not None:
            init(worker_id)

    return seed


class DeviceLoader:
    """A data loader whose batches arrive on a device; everything else is the loader's."""

    def __init__(self, loader: Any, device: torch.device, ahead: bool) -> None:
        self._loader = loader
        self._device = device
        self._ahead = ahead and device.type == "cuda"

    def __len__(self) -> int:
        return len(self._loader)

    def __getattr__(self, name: str) -> Any:
        if name == "_loader":  # while being unpickled
            raise AttributeError(name)
        return getattr(self._loader, name)

    def __iter__(self) -> Iterator[Any]:
        if not self._ahead:
            for batch in self._loader:
                yield _move(batch, self._device)
            return
        import torch

        stream = torch.cuda.Stream(self._device)
        batches = iter(self._loader)
        coming = self._fetch(batches, stream)
        while coming is not None:
            torch.cuda.current_stream(self._device).wait_stream(stream)
            batch = coming[0]
            _record(batch, torch.cuda.current_stream(self._device))
            coming = self._fetch(batches, stream)
            yield batch

    def _fetch(self, batches: Iterator[Any], stream: Any) -> tuple[Any] | None:
        import torch

        try:
            batch = next(batches)
        except StopIteration:
            return None
        with torch.cuda.stream(stream):
            return (_move(batch, self._device),)


def _move(value: Any, device: torch.device) -> Any:
    """The batch with its tensors on ``device``; other values stay as they are."""
    if hasattr(value, "to") and callable(value.to):
        try:
            return value.to(device, non_blocking=True)
        except TypeError:
            return value.to(device)
    if isinstance(value, dict):
        return {k: _move(v, device) for k, v in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_move(v, device) for v in value))
    if isinstance(value, list | tuple):
        return type(value)(_move(v, device) for v in value)
    return value


def _record(value: Any, stream: Any) -> None:
    """Tell the allocator that ``stream`` uses the tensors."""
    if hasattr(value, "record_stream"):
        value.record_stream(stream)
    elif isinstance(value, dict):
        for item in value.values():
            _record(item, stream)
    elif isinstance(value, list | tuple):
        for item in value:
            _record(item, stream)
