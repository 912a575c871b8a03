"""Copies of state beside the training: what an optimizer waits for before it changes the state."""

from __future__ import annotations

import threading
from typing import Any

import pytest

pytestmark = pytest.mark.heliostat_only("inside of the workers")
torch = pytest.importorskip("torch")

from heliostat.train.torch.resume.background import Copier  # noqa: E402
from heliostat.train.torch.resume.pinned import PinnedCopies  # noqa: E402


def optimizer() -> Any:
    made = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.1)
    made.param_groups[0]["params"][0].grad = torch.ones(1)
    return made


class Event:
    """Of a GPU: notes the streams that wait for it."""

    device = "gpu"

    def __init__(self) -> None:
        self.waited: list[str] = []

    def wait(self, stream: str) -> None:
        self.waited.append(stream)


def test_a_step_waits_for_a_copy_of_the_processor() -> None:
    steps = optimizer()
    copier, may_end, seen = Copier([steps]), threading.Event(), []
    parameter = steps.param_groups[0]["params"][0]

    def copy() -> None:
        may_end.wait(60)
        seen.append(parameter.item())

    copier.start(copy)
    threading.Timer(0.05, may_end.set).start()
    steps.step()
    assert seen == [1.0], "read before the step changed it"


def test_a_step_behind_a_copy_of_the_gpu_waits_on_the_gpu_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The thread that puts the copy into memory is still at it; the step's kernels come behind the event."""
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: f"stream of the {device}")
    steps, event = optimizer(), Event()
    copier, may_end = Copier([steps]), threading.Event()
    copier.start(lambda: may_end.wait(60) and None, [event])  # type: ignore[list-item, arg-type, return-value]
    steps.step()
    assert event.waited == ["stream of the gpu"]
    assert not may_end.is_set(), "the step did not wait for the thread"
    may_end.set()
    copier.wait()


def test_what_went_wrong_with_a_copy_of_the_gpu_is_raised_by_a_step() -> None:
    steps = optimizer()
    copier = Copier([steps])

    def copy() -> None:
        raise OSError("the store is full")

    copier.start(copy, [Event()])  # type: ignore[list-item]
    assert copier._thread is not None
    copier._thread.join()
    with pytest.raises(OSError, match="the store is full"):
        steps.step()


def test_tensors_of_the_processor_are_not_pinned() -> None:
    assert PinnedCopies().begin({"weight": torch.ones(2)}) is None
