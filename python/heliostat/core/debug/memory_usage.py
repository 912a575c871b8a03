"""Questions to a worker about its memory, asked by a signal as for its stacks (``stacks``).

``collect`` has Python's garbage collector look at everything. ``trace N`` begins to note which stack
allocates what, N frames deep, by ``tracemalloc`` of the standard library; ``traced`` ends that and tells
what was allocated since then and is still there. Memory that C code takes for itself, as torch does for
tensors, is not Python's to note: the size of the process, which is told, too, has it.
"""

from __future__ import annotations

import gc
import json
import linecache
import os
from typing import Any

# Frames of an allocation that are kept.
FRAMES = 24
# LIMIT-1: different stacks that are told of, the largest ones.
_STACKS_MAX = 2000
# Letters of a line of code.
_TEXT_MAX = 80
_CORE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

# Whether tracing was begun here: what the user's code has begun goes on.
_begun = [False]


def answer(request: str) -> str:
    """In the worker, on its main thread between two instructions: what is asked for, as JSON."""
    word, _, rest = request.partition(" ")
    if word == "collect":
        return json.dumps({"collected": gc.collect(), "uncollectable": len(gc.garbage)})
    if word == "trace":
        return json.dumps(_trace(int(rest or FRAMES)))
    if word == "traced":
        return json.dumps(_traced())
    return json.dumps({"problem": f"this worker does not know the request {word!r}"})


def _trace(frames: int) -> dict[str, Any]:
    try:
        import tracemalloc
    except ImportError:
        return {
            "problem": "This worker's Python has no `tracemalloc`, by which allocations are noted "
            "(CPython has it)."
        }
    _begun[0] = not tracemalloc.is_tracing()
    if _begun[0]:
        tracemalloc.start(frames)
    return {"is_new": _begun[0]}


def _traced() -> dict[str, Any]:
    import tracemalloc

    if not tracemalloc.is_tracing():
        return {"problem": "The user's code has ended `tracemalloc` in the meantime."}
    snapshot = tracemalloc.take_snapshot()
    if _begun[0]:
        tracemalloc.stop()
        _begun[0] = False
    found = []
    sizes = snapshot.statistics("traceback")
    for one in sizes[:_STACKS_MAX]:
        frames = [
            _shown(frame.filename, frame.lineno)
            for frame in one.traceback
            if not frame.filename.startswith(_CORE)
        ]
        if frames:
            found.append({"frames": frames, "count": one.size, "blocks": one.count})
    return {"stacks": found, "bytes": sum(one.size for one in sizes), "resident": _resident()}


def _shown(path: str, line: int) -> str:
    """A place in the code, with its text where that can be read."""
    text = linecache.getline(path, line).strip()[:_TEXT_MAX]
    return f"{os.path.basename(path)}:{line}" + (f" {text}" if text else "")


def _resident() -> int:
    """The process's memory, in bytes."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
