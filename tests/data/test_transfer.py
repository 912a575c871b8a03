"""Batches on their way to a GPU, shown by a CUDA that only takes notes (contract F10.18)."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import ray
import torch
from heliostat.data.iterate import torch_batches
from heliostat.data.iterate.transfer import Sent, Transfer, tensors_in


class NotedTensor(torch.Tensor):
    """A tensor that calls itself one of a GPU."""

    notes: list[Any]

    @property
    def device(self) -> torch.device:  # type: ignore[override] # a claim
        return torch.device("cuda", 1)

    def record_stream(self, stream: Any) -> None:
        self.notes.append(("record_stream", stream.name))


class Stream:
    def __init__(self, name: str, notes: list[Any]) -> None:
        self.name, self.notes = name, notes

    def wait_event(self, event: Event) -> None:
        self.notes.append(("wait_event", self.name, event.number))


class Event:
    def __init__(self, number: int, notes: list[Any]) -> None:
        self.number, self.notes = number, notes

    def record(self, stream: Stream) -> None:
        self.notes.append(("record", stream.name, self.number))


class Cuda:
    """As much of ``torch.cuda`` as a transfer uses."""

    def __init__(self) -> None:
        self.notes: list[Any] = []
        self.now: dict[int, str] = {}  # the current stream of each thread
        self.events = 0

    def is_available(self) -> bool:
        return True

    def current_device(self) -> int:
        return 1

    def Stream(self, device: torch.device) -> Stream:
        assert device == torch.device("cuda", 1)
        return Stream("own", self.notes)

    def Event(self) -> Event:
        self.events += 1
        return Event(self.events, self.notes)

    def current_stream(self, device: torch.device) -> Stream:
        return Stream(self.now.get(threading.get_ident(), "default"), self.notes)

    @contextlib.contextmanager
    def stream(self, stream: Stream) -> Iterator[None]:
        self.now[threading.get_ident()] = stream.name
        yield
        del self.now[threading.get_ident()]

    def move(self, batch: Any, device: torch.device) -> Any:
        """Copies as ``torch_batches.moved`` does, to a device that is not there."""
        stream = self.current_stream(device)
        in_thread = threading.current_thread() is not threading.main_thread()
        self.notes.append(("copy", stream.name, "ahead" if in_thread else "in the loop"))
        made = {}
        for name, tensor in batch.items():
            made[name] = tensor.clone().as_subclass(NotedTensor)
            made[name].notes = self.notes
        return made


@pytest.fixture
def cuda() -> Cuda:
    return Cuda()


def test_the_loop_gets_a_batch_behind_its_copy_on_another_stream(cuda: Cuda) -> None:
    transfer = Transfer(torch.device("cuda"), cuda, cuda.move)
    sent = transfer.send({"a": torch.arange(3), "b": torch.ones(2)})
    assert isinstance(sent, Sent)
    assert cuda.notes == [("copy", "own", "in the loop"), ("record", "own", 1)]
    cuda.notes.clear()
    batch = transfer.receive(sent)
    assert batch["a"].tolist() == [0, 1, 2]
    # Both tensors' memory stays until the loop's kernels are done with it.
    held = ("record_stream", "default")
    assert cuda.notes == [("wait_event", "default", 1), held, held]


def test_tensors_of_other_devices_are_left_alone(cuda: Cuda) -> None:
    """A ``collate_fn`` may keep some tensors on the CPU, where there are no streams."""
    transfer = Transfer(torch.device("cuda", 1), cuda, lambda batch, _: batch)
    batch = (torch.arange(3), {"label": [torch.ones(1), "text"]})
    assert transfer.receive(transfer.send(batch)) is batch
    assert cuda.notes == [("record", "own", 1), ("wait_event", "default", 1)]


def test_tensors_are_found_in_every_shape_of_batch() -> None:
    one, two, three = torch.ones(1), torch.ones(2), torch.ones(3)
    found = list(tensors_in({"a": one, "b": [two, "text", (three,)], "c": 7}))
    assert [len(tensor) for tensor in found] == [1, 2, 3]


@pytest.mark.contract("F10.18")
@pytest.mark.parametrize("prefetch", [0, 1, 4])
@pytest.mark.parametrize("pin", [False, True])
def test_iteration_copies_ahead_and_hands_over_in_order(
    ray_start: Any, monkeypatch: pytest.MonkeyPatch, cuda: Cuda, prefetch: int, pin: bool
) -> None:
    pinned: list[int] = []

    def pin_memory(tensor: torch.Tensor) -> torch.Tensor:
        pinned.append(len(tensor))
        return tensor.clone()

    def to_gpu(device: Any, move: Any) -> Transfer:
        assert str(device) == "cuda"
        return Transfer(torch.device("cuda"), cuda, cuda.move)

    monkeypatch.setattr(torch.Tensor, "pin_memory", pin_memory)
    monkeypatch.setattr(torch_batches, "to_gpu", to_gpu)
    batches = ray.data.range(1000, override_num_blocks=4).iter_torch_batches(
        batch_size=100, device="cuda", pin_memory=pin, prefetch_batches=prefetch
    )
    for _ in range(2):  # every epoch
        pinned.clear()
        cuda.notes.clear()
        seen = [batch["id"].sum().item() for batch in batches]
        assert sum(seen) == sum(range(1000))
        assert pinned == ([100] * 10 if pin else [])
        where = "ahead" if prefetch else "in the loop"
        assert cuda.notes.count(("copy", "own", where)) == 10, "copies use a stream of their own"
        copied = [note[2] for note in cuda.notes if note[0] == "record"]
        awaited = [note[2] for note in cuda.notes if note[0] == "wait_event"]
        assert awaited == copied, "each batch waits for its own copy"


def test_without_a_gpu_nothing_is_staged() -> None:
    if torch.cuda.is_available():
        assert torch_batches.to_gpu("cuda", torch_batches.moved) is not None
    assert torch_batches.to_gpu("cpu", torch_batches.moved) is None
    assert torch_batches.route(None, None, "cpu", False).receive is None
