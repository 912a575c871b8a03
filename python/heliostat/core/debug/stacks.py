"""The Python stacks of worker processes, had by another process of their machine and user.

A worker is asked with a signal and writes into memory that the asking process reads through /proc. Its
Python handler knows all threads and coroutines, and runs between two instructions of the interpreter. A
worker that holds the interpreter's lock in C code (an endless loop, a pattern that backtracks) never gets
there: ``faulthandler`` then writes the stack of the thread that has the signal, without source lines.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import FrameType
from typing import Any

# Real-time signals are used by nobody else; `train.worker.control` has the two before.
_ASK = signal.SIGRTMIN + 9 if hasattr(signal, "SIGRTMIN") else None
_DUMP = signal.SIGRTMIN + 8 if hasattr(signal, "SIGRTMIN") else None
_MEMORY = "heliostat-stacks"
_LINK = f"/memfd:{_MEMORY} (deleted)"
_END = "\x01:end-of-stacks:\n"
# The mark in the memory before a request for something other than stacks.
_REQUEST, _REQUEST_MAX = "\x02", 200
# How long the handler may take, and then `faulthandler`; how often is looked; when its text is complete.
_ANSWER_S, _DUMP_S, _LOOK_S, _COMPLETE_S = 3.0, 2.0, 0.02, 0.1
# So many workers are asked at a time.
_AT_A_TIME = 32
# Limits of one worker's answer: characters, and coroutines.
_CHARACTERS_MAX, _COROUTINES_MAX = 1 << 20, 100

_CORE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# Frames of these stand between the process's start and the user's function.
_OWN = tuple(
    os.path.join(_CORE, name)
    for name in ("worker/zygote.py", "worker/main_loop.py", "aio/async_actor.py", "debug/stacks.py")
)
# The stack of a worker that waits for a call.
IDLE = "Thread MainThread: no call runs\n"
# A thread that is in this file is an event loop that waits.
_LOOP_WAITS = os.path.join(_CORE, "aio", "polling_selector.py")
_STATES = {
    "T": "it is stopped (SIGSTOP, a terminal or a debugger; `kill -CONT {pid}` lets it go on)",
    "t": "a debugger has stopped it",
    "Z": "it has ended",
    "X": "it has ended",
    "D": "it waits within the system, for a disk, a network file system or a device",
}

_descriptor: list[int] = []


def open_stacks() -> None:
    """In a worker, on its main thread: answer those who ask for its stacks."""
    if _ASK is None or _DUMP is None or not hasattr(os, "memfd_create"):
        return
    with contextlib.suppress(OSError, ValueError, RuntimeError):
        descriptor = os.memfd_create(_MEMORY)
        faulthandler.register(_DUMP, file=descriptor, all_threads=False)
        signal.signal(_ASK, _answer)
        _descriptor[:] = [descriptor]


def workers() -> list[int]:
    """The process ids of this machine's workers, those of this user."""
    return [pid for pid in _processes() if _memory(pid) is not None and not _parent_shares(pid)]


def is_worker(pid: int) -> bool:
    """Whether a process is a worker that has begun and has not ended."""
    return _state(pid) not in "ZX" and _memory(pid) is not None


def stacks_of(pid: int) -> str:
    """The stacks of a worker's threads and coroutines, the innermost call last; else why there is none."""
    if excuse := _excuse(pid):
        return excuse
    text = _asked(pid)
    return dumped(pid) if text is None else text


def stacks_of_all(pids: Iterable[int]) -> Iterator[tuple[int, str, str]]:
    """The process id, the title and the stacks of each of these workers, in their order.

    Several are asked at a time: one that does not answer takes as long as it may, and the others do
    not wait for it.
    """
    with ThreadPoolExecutor(_AT_A_TIME) as threads:
        asked = [(pid, threads.submit(stacks_of, pid)) for pid in pids]
        for pid, text in asked:
            yield pid, title(pid), text.result()


def request(pid: int, request: str, within_s: float) -> str | None:
    """Return the answer of a worker to a request of ``worker_memory``; ``None`` where it gives none
    in that time.
    """
    return None if _excuse(pid) else _asked(pid, _REQUEST + request, within_s)


def dumped(pid: int) -> str:
    """The stack of the thread that a signal reaches, the main one, without the interpreter's help."""
    if excuse := _excuse(pid):
        return excuse
    memory = _memory(pid)
    if memory is None or not _catches(pid, _DUMP):
        return "(its process shows no stack)\n"
    try:
        with open(memory, "rb") as file:
            file.seek(0, os.SEEK_END)
            os.kill(pid, _DUMP or 0)
            written, deadline = b"", time.monotonic() + _DUMP_S
            while time.monotonic() < deadline:
                time.sleep(_COMPLETE_S if written else _LOOK_S)
                more = file.read()
                if written and not more:
                    break
                written += more
    except OSError as error:
        return f"(its stack cannot be read: {error})\n"
    if not written:
        return f"({_STATES.get(_state(pid), 'it does not answer a signal')})\n"
    frames = [line.strip() for line in written.decode(errors="replace").splitlines()]
    calls = [frame for frame in frames if frame.startswith("File ")]
    return "".join(f"  {frame}\n" for frame in reversed(calls))


def children(pid: int) -> list[int]:
    """The processes that a process has started, or forked, and that still are its own."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{thread}/children") as file:
                found += map(int, file.read().split())
    return sorted(found)


def shares_stacks(pid: int, worker: int) -> bool:
    """Whether a process that a worker has forked would answer as the worker does."""
    mine, its = _memory(worker), _memory(pid)
    if mine is None or its is None or not _catches(pid, _DUMP):
        return False
    with contextlib.suppress(OSError):
        return os.path.samestat(os.stat(mine), os.stat(its))
    return False


def title(pid: int) -> str:
    """Return the name of a process in ``ps``."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as file:
        return file.read().replace(b"\0", b" ").decode(errors="replace").strip()
    return ""


def _answer(_signum: int, frame: FrameType | None) -> None:
    """Handle the signal; an error here must not reach the code that it interrupts."""
    with contextlib.suppress(Exception):
        wanted = os.pread(_descriptor[0], _REQUEST_MAX, 0).decode(errors="replace")
        if wanted.startswith(_REQUEST):
            from heliostat.core.debug import memory_usage

            text = memory_usage.answer(wanted.removeprefix(_REQUEST)) + _END
        else:
            text = _told(frame)[:_CHARACTERS_MAX] + _END
        os.ftruncate(_descriptor[0], 0)
        os.pwrite(_descriptor[0], text.encode(errors="replace"), 0)
        os.lseek(_descriptor[0], 0, os.SEEK_END)


def _told(interrupted: FrameType | None) -> str:
    main = threading.main_thread().ident
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    frames = sys._current_frames()
    if interrupted is not None and main is not None:
        frames[main] = interrupted  # without the handler's own calls
    parts = [_thread(names.get(ident, "?"), frames[ident], ident == main) for ident in frames]
    parts += [f"Coroutine {name}:\n{_shown(calls)}" for name, calls in _coroutines()]
    return "".join(part for part in parts if part)


def _thread(name: str, frame: FrameType, is_main: bool) -> str:
    calls = list(_callers_first(frame))
    if any(call.f_code.co_filename == _LOOP_WAITS for call, _ in calls):
        return f"Thread {name}: its event loop waits\n"
    shown = _shown(calls)
    if not shown:
        return IDLE if is_main else ""
    return f"Thread {name}:\n{shown}"


def _callers_first(frame: FrameType | None) -> Iterator[tuple[FrameType, int]]:
    calls: list[tuple[FrameType, int]] = []
    while frame is not None:
        calls.append((frame, frame.f_lineno or 0))
        frame = frame.f_back
    return reversed(calls)


def _shown(calls: list[tuple[FrameType, int]]) -> str:
    """The calls as Python shows them."""
    return "".join(traceback.StackSummary.extract(iter(_theirs(calls))).format())


def _theirs(calls: list[tuple[FrameType, int]]) -> list[tuple[FrameType, int]]:
    """Calls from the user's first one on."""
    own = [i for i, (frame, _) in enumerate(calls) if frame.f_code.co_filename in _OWN]
    return calls[own[-1] + 1 :] if own else calls


def _coroutines() -> Iterator[tuple[str, list[tuple[FrameType, int]]]]:
    """Yield the suspended calls of an async actor's loops: names and frames."""
    module = sys.modules.get("heliostat.core.aio.async_actor")
    if module is None:
        return
    import asyncio

    tasks = [task for loop in module.loops() for task in asyncio.all_tasks(loop)]
    for task in tasks[:_COROUTINES_MAX]:
        coroutine: Any = task.get_coro()
        calls: list[tuple[FrameType, int]] = []
        while (frame := getattr(coroutine, "cr_frame", None)) is not None:
            calls.append((frame, frame.f_lineno or 0))
            coroutine = getattr(coroutine, "cr_await", None)
        if theirs := _theirs(calls):
            yield theirs[0][0].f_code.co_name, theirs


def _asked(pid: int, request: str = "", within_s: float = _ANSWER_S) -> str | None:
    """Return the answer of the worker's handler; ``None`` where it does not get to run."""
    memory = _memory(pid)
    if memory is None or not _catches(pid, _ASK):
        return None
    with contextlib.suppress(OSError):
        os.truncate(memory, 0)
        if request:
            with open(memory, "r+b") as file:
                file.write(request.encode())
        os.kill(pid, _ASK or 0)
        deadline = time.monotonic() + within_s
        while time.monotonic() < deadline:
            with open(memory, "rb") as file:
                text = file.read().decode(errors="replace")
            if text.endswith(_END):
                return text.removesuffix(_END)
            time.sleep(_LOOK_S)
    return None


def _excuse(pid: int) -> str:
    """Why a process cannot answer, as far as the system knows; "" where it may."""
    state = _state(pid)
    return f"({_STATES[state].format(pid=pid)})\n" if state in _STATES and state != "D" else ""


def _state(pid: int) -> str:
    """The letter of /proc; "X" where there is no such process."""
    fields = _status(pid)
    return fields[0] if fields else "X"


def _status(pid: int) -> list[str]:
    """The columns of /proc's `stat` from the state on; the parent's id is the second."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()
    return []


def _processes() -> list[int]:
    return sorted(int(name) for name in os.listdir("/proc") if name.isdecimal())


def _parent_shares(pid: int) -> bool:
    fields = _status(pid)
    return len(fields) > 1 and shares_stacks(int(fields[1]), pid)


def _memory(pid: int) -> str | None:
    """The path of a worker's memory for stacks; ``None`` for other processes, and for other users' ones."""
    with contextlib.suppress(OSError):
        for name in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                if os.readlink(path := f"/proc/{pid}/fd/{name}") == _LINK:
                    return path
    return None


def _catches(pid: int, number: int | None) -> bool:
    """Whether the process has a handler for the signal, which would end it otherwise."""
    with contextlib.suppress(OSError, ValueError), open(f"/proc/{pid}/status") as file:
        for line in file:
            if line.startswith("SigCgt:"):
                return bool(int(line.split()[1], 16) >> ((number or 1) - 1) & 1)
    return False
