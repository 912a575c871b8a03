"""The answer about a worker for the head's page: its stacks now, how often each was seen over some
seconds, or what each of them has allocated in that time.

``python -m heliostat.util.state.stack_answer '{"node_id": …, "pid": …, "seconds": …, "memory": …}'``
prints its answer as JSON. A worker shows its stacks to processes of its machine: a task on its node asks it.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections import Counter
from typing import Any

import heliostat
from heliostat.core.debug import memory_usage, stacks
from heliostat.util.scheduling_strategies import NodeAffinitySchedulingStrategy

# Between two looks; a look costs the worker about a millisecond.
_EVERY_S = 0.05
# Seconds that the node may take besides those in which it samples.
_NODE_S = 20.0
# How long a worker may take to make a list of its allocations, in seconds.
_MEMORY_S = 15.0
# LIMIT-1: different stacks that are told of, the most frequent ones.
_STACKS_MAX = 2000
# As Python shows a call, and as `faulthandler` does.
_CALL = re.compile(r'File "(.*)", line (\d+),? in (.*)')


def _look(pid: int, seconds: float) -> dict[str, Any]:
    """In a task on the worker's node: its stacks; with ``seconds``, looked at again and again."""
    first = stacks.stacks_of(pid)
    told: dict[str, Any] = {"title": stacks.title(pid), "text": first}
    if seconds <= 0:
        return told
    seen, looks, text = Counter[tuple[str, ...]](), 0, first
    until = time.monotonic() + seconds
    while True:
        looks += 1
        seen.update(map(tuple, folded(text)))
        left = until - time.monotonic()
        if left <= 0:
            break
        time.sleep(min(_EVERY_S, left))
        text = stacks.stacks_of(pid)
    told["looks"] = looks
    told["stacks"] = [
        {"frames": frames, "count": count} for frames, count in seen.most_common(_STACKS_MAX)
    ]
    return told


def _look_at_memory(pid: int, seconds: float) -> dict[str, Any]:
    """In a task on the worker's node: what was allocated in that time and is there at its end, by stack."""

    def ask(wanted: str) -> dict[str, Any]:
        said = stacks.request(pid, wanted, _MEMORY_S)
        if said is None:
            return {
                "problem": f"The process did not answer within {_MEMORY_S:.0f} s: it keeps the "
                "interpreter's lock, is stopped, or has ended."
            }
        told: dict[str, Any] = json.loads(said)
        return told

    begun = ask(f"trace {memory_usage.FRAMES}")
    if "problem" in begun:
        return begun
    time.sleep(seconds)
    told = ask("traced")
    return told if "problem" in told else {"title": stacks.title(pid), **begun, **told}


def folded(text: str) -> list[list[str]]:
    """The stacks of a text: each a thread's or coroutine's name and its calls, the outermost first."""
    found: list[list[str]] = []
    for line in text.splitlines():
        words = line.strip()
        if line.startswith(("Thread ", "Coroutine ")):
            name, _, rest = words.partition(":")
            found.append([name, *([rest.strip()] if rest.strip() else [])])
        elif call := _CALL.match(words):
            path, number, function = call.groups()
            if not found:  # `faulthandler` names no thread
                found.append(["Thread MainThread"])
            file = path.rsplit("/", 1)[-1]
            found[-1].append(f"{function} ({file}:{number})")
    return found


def _answer(request: dict[str, Any]) -> dict[str, Any]:
    seconds = float(request["seconds"])
    of_memory = bool(request.get("memory"))
    look = heliostat.remote(_look_at_memory if of_memory else _look).options(
        num_cpus=0,
        max_retries=0,
        name="heliostat stack",
        scheduling_strategy=NodeAffinitySchedulingStrategy(request["node_id"], soft=False),
    )
    try:
        told: dict[str, Any] = heliostat.get(
            look.remote(request["pid"], seconds), timeout=seconds + _NODE_S + 2 * _MEMORY_S
        )
    except heliostat.exceptions.GetTimeoutError:
        return {"problem": "The node did not answer in time."}
    except heliostat.exceptions.RayError as error:
        return {"problem": str(error)}
    return told


def main() -> None:
    """The program."""
    request = json.loads(sys.argv[1])
    heliostat.init("auto", log_to_driver=False, logging_level="ERROR")
    sys.stdout.write("\n" + json.dumps(_answer(request)) + "\n")


if __name__ == "__main__":
    main()
