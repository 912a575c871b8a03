"""Copying state beside the training: it has to be done before an optimizer changes it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any

import torch


class Copier:
    """Runs one copy at a time in a thread; optimizers wait for it in ``step()``.

    What a GPU copies by itself, only the GPU waits for: an optimizer's kernels come behind the copy,
    while the training's thread goes on.
    """

    def __init__(self, optimizers: Iterable[torch.optim.Optimizer]) -> None:
        self._thread: threading.Thread | None = None
        self._failure: BaseException | None = None
        self._copied: list[torch.cuda.Event] = []
        self._hooks = [o.register_step_pre_hook(self._before_step) for o in optimizers]

    def _before_step(self, *_: Any) -> None:
        if not self._copied or self._thread is None or not self._thread.is_alive():
            self.wait()
            return
        for event in self._copied:
            event.wait(torch.cuda.current_stream(event.device))

    def start(self, copy: Callable[[], None], copied: Iterable[torch.cuda.Event] = ()) -> None:
        """Run ``copy`` beside what comes next, after what is under way.

        Args:
            copy: Reads the state, unless the GPU does.
            copied: The events behind which the GPU has read the state.
        """
        self.wait()
        self._copied = list(copied)
        self._thread = threading.Thread(
            target=self._run, args=(copy,), name="train-copy", daemon=True
        )
        self._thread.start()

    def _run(self, copy: Callable[[], None]) -> None:
        try:
            copy()
        except BaseException as error:  # raised where it is waited for
            self._failure = error

    def wait(self) -> None:
        """Wait until nothing is read any more. Raises what went wrong."""
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.join()
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def close(self) -> None:
        """Optimizers wait no longer."""
        while self._hooks:
            self._hooks.pop().remove()
