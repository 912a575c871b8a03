"""The progress of the environment that this process makes, for ``heliostat why``.

A file of the session says it while that lasts; the daemon reads it when it is asked (`helio-node`:
`making.rs`).
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from pathlib import Path

_FOLDER = "making"

_step = ""
_since_ms = 0


def step(text: str, *, size: int = 0, file: str | Path = "") -> None:
    """Something begins: what it is, in words behind "pid 123 …".

    Args:
        text: Such as "installs numpy". The same text again: it goes on.
        size: How many bytes there are of it.
        file: What grows with it, instead.
    """
    global _step, _since_ms
    if text != _step:
        _step, _since_ms = text, time.time_ns() // 1_000_000
    told = {"step": text, "since_ms": _since_ms, "bytes": size, "file": str(file)}
    with contextlib.suppress(OSError):  # a full disk is no reason to fail for
        place = _place()
        place.parent.mkdir(mode=0o700, exist_ok=True)
        draft = place.with_suffix(".part")
        draft.write_text(json.dumps(told))
        draft.replace(place)


def goes_on(size: int) -> None:
    """Note how many bytes of it there are now."""
    if _step:
        step(_step, size=size)


def done() -> None:
    """Note that the step has ended, whatever its outcome."""
    global _step
    if _step:
        _step = ""
        _place().unlink(missing_ok=True)


# Says to the daemon how large this process's environment is: the worker tells it when it registers.
_BYTES = "HELIOSTAT_ENVIRONMENT_BYTES"


def count(size: int) -> None:
    """A part of this process's environment takes so many bytes of the disk."""
    os.environ[_BYTES] = str(counted() + size)


def counted() -> int:
    """The size of all parts that this process found or made, in bytes."""
    return int(os.environ.get(_BYTES) or 0)


def _place() -> Path:
    return Path(os.environ["HELIOSTAT_SESSION_DIR"], _FOLDER, str(os.getpid()))
