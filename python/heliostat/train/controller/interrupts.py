"""Ctrl-C during ``fit()``: the first ends the run in order, the third ends the process."""

from __future__ import annotations

import os
import signal
import sys
import threading
from types import FrameType, TracebackType
from typing import Any


class Interrupts:
    """Installs a SIGINT handler on the main thread for the time of a run."""

    def __init__(self) -> None:
        self.count = 0
        self._previous: Any = None
        self._installed = False

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            current = signal.getsignal(signal.SIGINT)
            # A handler of the user's own stays in charge.
            if current is signal.default_int_handler:
                self._previous = signal.signal(signal.SIGINT, self._handle)
                self._installed = True
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._installed:
            signal.signal(signal.SIGINT, self._previous)

    def _handle(self, signum: int, frame: FrameType | None) -> None:
        self.count += 1
        if self.count == 1:
            raise KeyboardInterrupt
        if self.count == 2:
            sys.stderr.write("train: ending the workers; press Ctrl-C once more to exit at once\n")
            return
        os._exit(128 + signum)
