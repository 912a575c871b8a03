"""What the head's page shows of a worker: its stacks now, or how often each was seen over some seconds.

``python -m heliostat.util.state.stack_answer '{"node_id": …, "pid": …, "seconds": …}'`` prints its answer as
JSON. A worker shows its stacks to processes of its machine: a task on its node asks it.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections import Counter
from typing import Any

import heliostat
from heliostat.core import stacks
from heliostat.util.scheduling_strategies import NodeAffinitySchedulingStrategy

# Between two looks; a look costs the worker about a millisecond.
_EVERY_S = 0.05
# How long the node may take besides the time in which it looks, in seconds.
_NODE_S = 20.0
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
    look = heliostat.remote(_look).options(
        num_cpus=0,
        max_retries=0,
        name="heliostat stack",
        scheduling_strategy=NodeAffinitySchedulingStrategy(request["node_id"], soft=False),
    )
    try:
        told: dict[str, Any] = heliostat.get(
            look.remote(request["pid"], seconds), timeout=seconds + _NODE_S
        )
    except heliostat.exceptions.GetTimeoutError:
        return {"problem": f"The node did not answer within {_NODE_S:.0f} s."}
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
