"""Copies of a GPU's tensors in pinned memory, made by the GPU beside the kernels of a step."""

from __future__ import annotations

from collections.abc import Mapping

import torch

# Tensors on the processor, such as an optimizer's counts, are copied at once: no more bytes than these.
_HOST_BYTES_MAX = 1 << 20


class PinnedCopies:
    """Copies tensors on a stream of its own: neither the step's kernels nor its thread wait for it.

    A copy from a GPU into memory that is not pinned waits for every kernel that was started before, and is
    ten times slower. The pinned memory, as much as the tensors have, is kept for the next time.
    """

    def __init__(self) -> None:
        self._kept: dict[str, torch.Tensor] = {}
        self._streams: dict[torch.device, torch.cuda.Stream] = {}
        self._is_refused = False

    def begin(
        self, tensors: Mapping[str, torch.Tensor]
    ) -> tuple[dict[str, torch.Tensor], list[torch.cuda.Event]] | None:
        """Begin to copy. Nothing reads the copies of the time before any more.

        Returns:
            The copies by name, and the events behind which they are whole. None where no tensor is on a
            GPU, many bytes are not, or the system pins no more memory.
        """
        host = sum(t.nbytes for t in tensors.values() if not t.is_cuda)
        devices = {t.device for t in tensors.values() if t.is_cuda}
        if not devices or host > _HOST_BYTES_MAX or self._is_refused:
            return None
        try:
            copies = {
                name: room_for(self._kept, name, tensor, pinned=True)
                for name, tensor in tensors.items()
            }
        except RuntimeError:
            self._is_refused, self._kept = True, {}
            return None
        for device in devices:
            stream = self._streams.setdefault(device, torch.cuda.Stream(device))
            stream.wait_stream(torch.cuda.current_stream(device))
        for name, tensor in tensors.items():
            if not tensor.is_cuda:
                copies[name].copy_(tensor)
                continue
            stream = self._streams[tensor.device]
            with torch.cuda.stream(stream):
                copies[name].copy_(tensor, non_blocking=True)
            # The copy's memory is not given to another tensor before it is read.
            tensor.record_stream(stream)
        return copies, [self._streams[device].record_event() for device in devices]


def room_for(
    kept: dict[str, torch.Tensor], name: str, tensor: torch.Tensor, *, pinned: bool
) -> torch.Tensor:
    """Memory of the processor for a copy of ``tensor``: that of the last time, where it still fits."""
    room = kept.get(name)
    if room is None or room.shape != tensor.shape or room.dtype != tensor.dtype:
        room = kept[name] = torch.empty_like(tensor, device="cpu", pin_memory=pinned)
    return room
