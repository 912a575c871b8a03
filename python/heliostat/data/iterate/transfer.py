"""Copies of batches to a GPU beside the work that the GPU does.

The thread that makes batches in advance copies them on a CUDA stream of its own. On the default
stream a copy would wait for every kernel that the loop has started, and the loop for the copy. The
loop's stream waits, on the device, for the one event that its batch needs; no thread waits.

From pinned memory the GPU copies by itself. That memory comes from torch's cache of pinned blocks: after
the first batches nothing is allocated, and a block is used again only when its copy has ended. From other
memory the copy keeps the thread that makes batches, not the loop's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from heliostat.core.platform.extras import required

if TYPE_CHECKING:
    from types import ModuleType

    import torch

    from heliostat.data.aliases import Value


Move = Callable[["Value", "torch.device"], "Value"]  # copies the tensors of a batch to a device


class Sent(NamedTuple):
    """A batch whose copy to the GPU has begun."""

    batch: Value
    copied: torch.cuda.Event  # the event after its last copy


class Transfer:
    """Copies batches to one GPU: ``send`` in the thread that makes them, ``receive`` in the loop's."""

    def __init__(self, device: torch.device, cuda: ModuleType, move: Move) -> None:
        """``cuda`` is ``torch.cuda``; ``move`` copies the tensors of a batch to a device."""
        torch = required("torch", "Batches of tensors")

        index = cuda.current_device() if device.index is None else device.index
        # The other thread has a current device of its own: name the loop's.
        self._device = torch.device(device.type, index)
        self._cuda, self._move = cuda, move
        self._stream = cuda.Stream(self._device)

    def send(self, batch: Value) -> Sent:
        """Begin to copy a batch."""
        with self._cuda.stream(self._stream):
            moved = self._move(batch, self._device)
            copied = self._cuda.Event()
            copied.record(self._stream)
        return Sent(moved, copied)

    def receive(self, sent: Sent) -> Value:
        """The batch, for kernels that the calling thread starts from now on."""
        stream = self._cuda.current_stream(self._device)
        stream.wait_event(sent.copied)
        for tensor in tensors_in(sent.batch):
            # The batch's memory belongs to the copying stream, which must not reuse it before the loop's
            # kernels are done with it.
            if tensor.device == self._device:
                tensor.record_stream(stream)
        return sent.batch


def tensors_in(batch: object) -> Iterator[torch.Tensor]:
    """The tensors of a batch, those in lists, tuples and mappings included."""
    torch = required("torch", "Batches of tensors")

    if isinstance(batch, torch.Tensor):
        yield batch
    elif isinstance(batch, Mapping):
        for value in batch.values():
            yield from tensors_in(value)
    elif isinstance(batch, list | tuple):
        for value in batch:
            yield from tensors_in(value)


def to_gpu(device: object, move: Move) -> Transfer | None:
    """Return the transfer of batches to this device; None where it is not a GPU, or none is there."""
    torch = required("torch", "Batches of tensors")

    target = torch.device(device)
    if target.type != "cuda" or not torch.cuda.is_available():
        return None
    return Transfer(target, torch.cuda, move)
