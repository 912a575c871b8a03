"""Asynchronous uploads of one worker: one thread, in the order of the reports."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable

# Uploads that wait for their turn; `report` blocks beyond that, so that disks do not fill up.
_MAX_WAITING = 8


class Uploads:
    """A queue with one thread, started when it is first needed."""

    def __init__(self) -> None:
        self._queue: queue.Queue[Callable[[], None] | None] = queue.Queue(_MAX_WAITING)
        self._thread: threading.Thread | None = None
        self._failure: BaseException | None = None
        self._changed = threading.Condition()
        self._pending = 0

    @property
    def busy(self) -> bool:
        """Whether an upload waits or is under way."""
        return self._pending > 0

    def submit(self, job: Callable[[], None]) -> None:
        """Run ``job`` after those before it."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="train-uploads", daemon=True)
            self._thread.start()
        with self._changed:
            self._pending += 1
        self._queue.put(job)

    def _run(self) -> None:
        while (job := self._queue.get()) is not None:
            try:
                if self._failure is None:
                    job()
            except BaseException as error:  # raised again in the thread of the training function
                self._failure = error
            finally:
                with self._changed:
                    self._pending -= 1
                    self._changed.notify_all()

    def flush(self, timeout_s: float | None = None) -> None:
        """Wait until nothing is under way, at most ``timeout_s`` seconds.

        Raises:
            TimeoutError: Something still was.
        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        with self._changed:
            while self._pending:
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0:
                    raise TimeoutError(f"{self._pending} uploads are still under way")
                # Short waits let a signal end the wait.
                self._changed.wait(0.2 if left is None else min(0.2, left))
        self.raise_failure()

    def raise_failure(self) -> None:
        """Raise what went wrong with an earlier upload."""
        if self._failure is not None:
            raise self._failure

    def close(self) -> None:
        """Let the thread end after what it does now."""
        if self._thread is not None:
            self._failure = self._failure or RuntimeError("the attempt is over")
            self._queue.put(None)
            self._thread = None
