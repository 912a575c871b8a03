"""What the stand-ins for clients of databases keep: files below a folder, so that all processes see them.

Each is as much of its package as the data library uses, with the package's names and errors. A server's
faults are put there by tests: ``fault("mongo", 2)`` makes the next two requests to it fail.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def root() -> Path:
    return Path(os.environ["CLIENTS_ROOT"])


@contextlib.contextmanager
def locked() -> Iterator[None]:
    with open(root() / "lock", "a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def load(name: str, default: Any) -> Any:
    path = root() / name
    return pickle.loads(path.read_bytes()) if path.exists() else default


def store(name: str, value: Any) -> None:
    whole = root() / f"{name}-{os.getpid()}"
    whole.write_bytes(pickle.dumps(value))
    whole.replace(root() / name)


@contextlib.contextmanager
def changed(name: str, default: Any) -> Iterator[Any]:
    """What is kept under a name, to be changed; nobody else changes it meanwhile."""
    with locked():
        value = load(name, default)
        try:
            yield value
        finally:
            store(name, value)


def fault(name: str, times: int = 1, after: int = 0) -> None:
    """The next requests of a name fail, after some that do not."""
    with locked():
        store(f"fault-{name}", [after, times])


def fails(name: str) -> bool:
    """Whether this request is to fail."""
    with locked():
        after, times = load(f"fault-{name}", [0, 0])
        if after:
            store(f"fault-{name}", [after - 1, times])
            return False
        store(f"fault-{name}", [0, max(times - 1, 0)])
        return bool(times)


def counted(name: str) -> None:
    """Count a request."""
    with changed(f"count-{name}", [0]) as held:
        held[0] += 1


def count(name: str) -> int:
    return int(load(f"count-{name}", [0])[0])
