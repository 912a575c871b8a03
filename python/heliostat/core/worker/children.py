"""Processes that user code started in a worker and left behind: they end with the worker.

``multiprocessing`` joins its children as the interpreter ends, and one that waits for work, such as that
of an idle ``ProcessPoolExecutor``, never ends by itself: the worker would wait for ever, with all that
the actor holds. So they are asked to end where Python would join them, after the handlers that the
user's code has registered.

Children in the worker's process group are killed by the daemon once the worker is gone, however it went.
Here end the direct ones that have a group of their own.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from typing import Any

# How long children of `multiprocessing` may take to end once they were asked to.
_GRACE_S = 1.0


def end_with_multiprocessing() -> None:
    """Have ``multiprocessing`` end its children rather than wait for them."""
    if (util := sys.modules.get("multiprocessing.util")) is None:
        return
    # `multiprocessing` runs finalizers of this priority before joining; handlers of user code, which were
    # registered after its own, have had their turn by then.
    util.Finalize(None, _end_children, exitpriority=0)


def kill_direct() -> None:
    """Kill the children that are still there."""
    for pid in _children():
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)


def _end_children() -> None:
    process: Any = sys.modules["multiprocessing.process"]
    children = process.active_children()
    for child in children:
        child.terminate()
    deadline = time.monotonic() + _GRACE_S
    for child in children:
        child.join(max(0.0, deadline - time.monotonic()))
        if child.is_alive():
            child.kill()


def _children() -> list[int]:
    found: list[int] = []
    for task in os.listdir("/proc/self/task"):
        with contextlib.suppress(OSError), open(f"/proc/self/task/{task}/children") as file:
            found.extend(map(int, file.read().split()))
    return found
