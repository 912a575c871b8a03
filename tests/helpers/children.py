"""Child processes as user code leaves them behind in a worker, by kind.

Each maker returns the numbers of the processes that it has started and that would run for ever.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any

# A list that keeps the children's handles alive, as the attribute of an actor would.
KEPT: list[Any] = []


def _run(ready: Any) -> None:
    ready.put(os.getpid())
    while True:
        time.sleep(0.1)


def _run_deaf(ready: Any) -> None:
    """Not to be ended by a polite word."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    _run(ready)


def _run_parent(ready: Any) -> None:
    """Has a child of its own."""
    context = multiprocessing.get_context("fork")
    context.Process(target=_run, args=(ready,)).start()
    _run(ready)


def _process(method: str, target: Callable[[Any], None] = _run, count: int = 1) -> list[int]:
    context: Any = multiprocessing.get_context(method)
    ready = context.Queue()
    child = context.Process(target=target, args=(ready,))
    child.start()
    KEPT.append((child, ready))
    return [ready.get(timeout=60) for _ in range(count)]


def _executor(method: str) -> list[int]:
    executor = ProcessPoolExecutor(2, multiprocessing.get_context(method))
    KEPT.append(executor)
    return list({executor.submit(os.getpid).result(60) for _ in range(4)})


def _pool() -> list[int]:
    pool = multiprocessing.get_context("fork").Pool(2)
    KEPT.append(pool)
    return list(set(pool.map(_pid, range(8))))


def _pid(_: int) -> int:
    return os.getpid()


def _popen(**options: Any) -> list[int]:
    child = subprocess.Popen(["sleep", "1000"], **options)
    KEPT.append(child)
    return [child.pid]


def _loader() -> list[int]:
    from torch.utils.data import DataLoader

    loader = iter(DataLoader(list(range(8)), num_workers=2, persistent_workers=True))
    next(loader)
    KEPT.append(loader)
    return [worker.pid for worker in loader._workers]


MAKERS: dict[str, Callable[[], list[int]]] = {
    "fork": lambda: _process("fork"),
    "spawn": lambda: _process("spawn"),
    "forkserver": lambda: _process("forkserver"),
    "deaf": lambda: _process("fork", _run_deaf),
    "grandchild": lambda: _process("fork", _run_parent, 2),
    "executor": lambda: _executor("fork"),
    "executor-spawn": lambda: _executor("spawn"),
    "pool": _pool,
    "popen": _popen,
    "popen-session": lambda: _popen(start_new_session=True),
    "loader": _loader,
}
