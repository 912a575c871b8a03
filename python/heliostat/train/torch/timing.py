"""Tells the clock of a rank what torch does: data loaders, backward passes, optimizers, collectives.

Nothing of this needs a change of the training function. Each place is wrapped once in a process, and asks
for the clock of the function that runs; where there is none, it only calls on.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from heliostat.train.steps.clock import StepClock, current_clock, fetch
from heliostat.train.steps.messages import BACKWARD, COMMUNICATION

_installed: list[bool] = []


class DeviceMoments:
    """Moments of the GPU's current stream: work that the processor only starts takes its time
    there.
    """

    def now(self) -> torch.cuda.Event | None:
        """The moment at which the stream has done what it was given; None within a graph's capture."""
        with contextlib.suppress(RuntimeError):  # what is wrong with the device, training says
            if torch.cuda.is_current_stream_capturing():
                return None
            event = torch.cuda.Event(enable_timing=True)
            event.record()
            return event
        return None

    def has_come(self, moment: torch.cuda.Event | None) -> bool:
        """Whether the stream is there."""
        with contextlib.suppress(RuntimeError):
            return moment is None or bool(moment.query())
        return False

    def seconds(self, first: torch.cuda.Event | None, second: torch.cuda.Event | None) -> float:
        """From the first to the second."""
        if first is None or second is None:
            return 0.0
        return float(first.elapsed_time(second)) / 1000


def install() -> None:
    """Wrap what the phases are told from, once in a process."""
    if _installed:
        return
    _installed.append(True)
    from torch.optim import optimizer
    from torch.utils.data import dataloader

    loading: Any = dataloader._BaseDataLoaderIter
    loading.__next__ = _fetching(loading.__next__)
    autograd: Any = torch.autograd
    autograd.backward = _backward(autograd.backward)
    optimizer.register_optimizer_step_pre_hook(_optimizer_begins)
    optimizer.register_optimizer_step_post_hook(_optimizer_ended)
    if dist.is_available():
        work: Any = dist.Work
        work.wait = _waiting(work.wait)
        module: Any = dist
        module._broadcast_coalesced = _waiting(module._broadcast_coalesced)


def _mine() -> StepClock | None:
    """The clock, where the calling thread is that of the training function."""
    clock = current_clock()
    return clock if clock is not None and clock.is_mine else None


def _fetching(plain: Callable[[Any], Any]) -> Callable[[Any], Any]:
    @functools.wraps(plain)
    def following(iterator: Any) -> Any:
        return fetch(iterator, plain)

    return following


def _backward(plain: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(plain)
    def backward(tensors: Any, *args: Any, **options: Any) -> None:
        clock = _mine()
        if clock is None or clock.phase in (BACKWARD, COMMUNICATION):  # within another one
            return plain(tensors, *args, **options)
        hook = _at_end_of_computing(tensors, lambda: clock.enter(COMMUNICATION))
        before = clock.enter(BACKWARD)
        try:
            return plain(tensors, *args, **options)
        finally:
            clock.enter(before)
            if hook is not None:
                hook.remove()

    return backward


def _at_end_of_computing(tensors: Any, call: Callable[[], Any]) -> Any:
    """Have ``call`` made when a backward pass has computed all gradients.

    What averages them queues its waiting for that moment, too, but later than this does: the root of the
    graph is the first that a backward pass comes to.
    """
    roots = [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)
    with contextlib.suppress(Exception):  # a root of a kind of its own: the times are less exact
        root = next(t for t in roots if isinstance(t, torch.Tensor) and t.requires_grad)
        engine = torch.autograd.Variable._execution_engine
        return root.register_hook(lambda _: engine.queue_callback(call))
    return None


def _optimizer_begins(optimizer: Any, args: Any, options: Any) -> None:
    clock = _mine()
    if clock is not None:
        clock.optimizer_begins()
        if torch.cuda.is_initialized() and not isinstance(clock.moments, DeviceMoments):
            clock.use(DeviceMoments())


def _optimizer_ended(optimizer: Any, args: Any, options: Any) -> None:
    clock = _mine()
    if clock is not None:
        clock.optimizer_ended()


def _waiting(plain: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(plain)
    def wait(*args: Any, **options: Any) -> Any:
        clock = _mine()
        if clock is None or clock.phase == COMMUNICATION:
            return plain(*args, **options)
        before = clock.enter(COMMUNICATION)
        try:
            return plain(*args, **options)
        finally:
            clock.enter(before)

    return wait
