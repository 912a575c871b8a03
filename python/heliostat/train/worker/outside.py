"""The Python stack of a training worker that cannot answer itself, taken by another process of its node.

A worker that holds the interpreter's lock (an endless loop in C, a pattern that backtracks) answers no
call. Its signal handler still runs: ``faulthandler`` writes the stack into memory that others of the same
user can read. Processes that the worker has forked, such as those of a data loader, inherit both.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import signal
import time
from dataclasses import dataclass

# Real-time signals are used by nobody else; ``control`` has the one before.
_SIGNAL = signal.SIGRTMIN + 8 if hasattr(signal, "SIGRTMIN") else None
# How long a signalled process may take; how often is looked; when what it has written is complete.
_ANSWER_S, _LOOK_S, _COMPLETE_S = 2.0, 0.02, 0.1
# Processes of a worker that are asked.
_MAX_CHILDREN = 16

_STATES = {
    "T": "it is stopped (SIGSTOP, a terminal or a debugger; `kill -CONT {pid}` lets it go on)",
    "t": "a debugger has stopped it",
    "Z": "it has ended",
    "X": "it has ended",
    "D": "it waits within the system, for a disk, a network file system or a device",
}


@dataclass(frozen=True)
class Place:
    """Where a worker's stack can be had: its node, its process, and the memory it writes to."""

    node_id: str
    pid: int
    descriptor: int


_descriptor: list[int] = []


def open_stacks(node_id: str) -> Place | None:
    """In a worker, on its main thread: let others ask for its stack; None where that cannot be."""
    if _SIGNAL is None or not hasattr(os, "memfd_create"):
        return None
    if not _descriptor:
        with contextlib.suppress(OSError, ValueError, RuntimeError):
            descriptor = os.memfd_create("heliostat-train-stack")
            faulthandler.register(_SIGNAL, file=descriptor, all_threads=False)
            _descriptor.append(descriptor)
    return Place(node_id, os.getpid(), _descriptor[0]) if _descriptor else None


def stack_of(place: Place) -> str:
    """On the worker's node: the stack of its training function, and those of processes that it forked.

    In words where there is none: the process is stopped, or gone.
    """
    return _asked(place.pid, place) + stacks_of_children(place)


def stacks_of_children(place: Place) -> str:
    """The stacks of the processes that the worker has forked; "" without any."""
    return "".join(
        f"What its process {child} is doing:\n{_asked(child, place)}"
        for child in _children(place.pid)[:_MAX_CHILDREN]
        if _writes_there(child, place)
    )


def _asked(pid: int, place: Place) -> str:
    """The stack of one process that writes to ``place``."""
    state = _state(pid)
    if state in _STATES and state != "D":
        return f"({_STATES[state].format(pid=pid)})\n"
    if not _writes_there(pid, place):
        return "(its process shows no stack)\n"
    try:
        with open(f"/proc/{place.pid}/fd/{place.descriptor}", "rb") as memory:
            memory.seek(0, os.SEEK_END)
            os.kill(pid, _SIGNAL or 0)
            written, deadline = b"", time.monotonic() + _ANSWER_S
            while time.monotonic() < deadline:
                time.sleep(_COMPLETE_S if written else _LOOK_S)
                more = memory.read()
                if written and not more:
                    break
                written += more
    except OSError as error:
        return f"(its stack cannot be read: {error})\n"
    if not written:
        return f"({_STATES.get(state, 'it does not answer a signal')})\n"
    return in_order(written.decode(errors="replace"))


def in_order(dumped: str) -> str:
    """What ``faulthandler`` writes as Python writes stacks: the innermost call last, from the function on."""
    frames = [line.strip() for line in dumped.splitlines() if line.lstrip().startswith("File ")]
    shown: list[str] = []
    for frame in frames:
        # Above are the worker's own calls, or those by which a process was forked.
        if frame.endswith("in _bootstrap") or (
            frame.endswith("in guard") and "control.py" in frame
        ):
            break
        if "/train/torch/timing.py" not in frame.replace("\\", "/"):
            shown.append(frame)
    while shown and "/train/worker/actor.py" in shown[-1].replace("\\", "/"):
        shown.pop()
    return "".join(f"  {frame}\n" for frame in reversed(shown))


def _state(pid: int) -> str:
    """The letter of /proc; "X" where there is no such process."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0]
    except OSError:
        return "X"


def _writes_there(pid: int, place: Place) -> bool:
    """Whether the process has the memory, and a handler for the signal, which would end it otherwise."""
    with contextlib.suppress(OSError):
        mine, its = (os.stat(f"/proc/{p}/fd/{place.descriptor}") for p in (place.pid, pid))
        return mine.st_ino == its.st_ino and mine.st_dev == its.st_dev and _catches(pid)
    return False


def _catches(pid: int) -> bool:
    with contextlib.suppress(OSError, ValueError), open(f"/proc/{pid}/status") as file:
        for line in file:
            if line.startswith("SigCgt:"):
                return bool(int(line.split()[1], 16) >> ((_SIGNAL or 1) - 1) & 1)
    return False


def _children(pid: int) -> list[int]:
    found: list[int] = []
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{thread}/children") as file:
                found += map(int, file.read().split())
    return sorted(found)
