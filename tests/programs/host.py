"""A process with one session in which many programs run side by side, each in a thread.

It reads a line for each program from its standard input, ``{"id", "text"}``, and writes a line for
each result, ``{"id", "error"}``; at the end of the input it looks for what the programs left. A
program that hangs ends the process with an explanation of everything that waits.
"""

from __future__ import annotations

import contextlib
import gc
import itertools
import json
import os
import queue
import sys
import tempfile
import threading
import time
import traceback
from pathlib import Path
from typing import Any

from tests.programs import emit, kit

GONE_WITHIN_S = 120.0


class Host:
    """Runs programs as they come."""

    def __init__(self, kind: str, n_threads: int, limit_s: float) -> None:
        self.kind = kind
        self.limit_s = limit_s
        self.todo: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self.n_threads = n_threads
        self.running: dict[str, float] = {}
        self.lock = threading.Lock()
        # Whatever programs print must not end up among the results.
        self.out = os.fdopen(os.dup(1), "w")
        os.dup2(2, 1)
        self.numbers = itertools.count()
        self.folder = Path(tempfile.mkdtemp(prefix="programs-"))

    def say(self, **line: Any) -> None:
        with self.lock:  # `print` writes the end of a line by itself
            print(json.dumps(line), file=self.out, flush=True)

    def run(self) -> int:
        # Every worker needs them, and compiling them costs more than most programs.
        kit.start(self.kind, {"preload_python_modules": ["tests.programs.ways"]})
        threads = [threading.Thread(target=self.work, daemon=True) for _ in range(self.n_threads)]
        watch = threading.Thread(target=self.watch, daemon=True)
        for thread in [*threads, watch]:
            thread.start()
        before = None
        for line in sys.stdin:
            given = json.loads(line)
            if given["id"] == "settle":
                self.todo.join()
                left = leftovers()
                fds = len(os.listdir("/proc/self/fd"))
                # The first programs open what stays open: connections, logs, loops.
                before = before or fds
                if fds > before + 64:
                    left.append(f"{fds} file descriptors, {before} before")
                self.say(id="settle", error="\n".join(left))
            else:
                self.todo.put(given)
        # Whoever sent the programs is gone, or has all results: nothing may keep this process.
        end = threading.Timer(self.limit_s, os._exit, (4,))
        end.daemon = True
        end.start()
        for _ in threads:
            self.todo.put(None)
        for thread in threads:
            thread.join()
        kit.stop()
        return 0

    def work(self) -> None:
        while True:
            given = self.todo.get()
            if given is None:
                return
            name = str(given["id"])
            self.running[name] = time.monotonic()
            error = self.one(name, given["text"])
            self.say(id=given["id"], error=error, s=time.monotonic() - self.running.pop(name))
            # Not before the result is written: what it leaves is looked for behind it.
            self.todo.task_done()

    def one(self, name: str, text: str) -> str:
        # Calls of a program that failed may run on: they must not write into the log of a later run.
        log = self.folder / f"{name}-{next(self.numbers)}.runs"
        log.touch()
        names: dict[str, Any] = {"__name__": f"program_{name}"}
        try:
            exec(compile(emit.IMPORTED + text, f"program {name}", "exec"), names)
            names["program"](str(log))
        except BaseException as error:
            ended = "".join(f"\n{line}" for line in dead_workers()[:40])  # the newest come first
            text = f"{type(error).__name__}: {error}\n{traceback.format_exc()[-3000:]}"
            return f"{text}\nworkers that ended with an error or were needed:{ended}"
        finally:
            log.unlink()
            names.clear()
        return ""

    def watch(self) -> None:
        """End the process, with an explanation, when a program takes too long."""
        while True:
            time.sleep(0.25)
            now = time.monotonic()
            late = [
                name for name, began in list(self.running.items()) if now - began > self.limit_s
            ]
            if late:
                frames = sys._current_frames()
                stacks = "\n".join(
                    f"{thread.name}\n{''.join(traceback.format_stack(frames[thread.ident])[-8:])}"
                    for thread in threading.enumerate()
                    if thread.ident in frames and thread is not threading.current_thread()
                )
                text = f"hangs\n{kit.report_waiting()}\n{stacks}"
                for name in late:
                    self.say(id=int(name), error=text, hang=True)
                os._exit(3)


def leftovers() -> list[str]:
    """What is still there although every program has ended and dropped its names."""

    end = time.monotonic() + GONE_WITHIN_S
    while True:
        gc.collect()
        left = look()
        if not left or time.monotonic() > end:
            return left
        time.sleep(0.05)


def dead_workers() -> list[str]:
    """How processes of the session have ended."""
    import ray

    if not hasattr(ray.util, "why"):
        return []
    from ray.util.state import list_workers

    with contextlib.suppress(Exception):
        rows = list_workers(limit=10_000, detail=True, raise_on_missing_output=False)
        return [f"{r.pid} {r.exit_type} {r.exit_detail}"[:300] for r in rows if not r.is_alive]
    return []


def look() -> list[str]:
    import ray

    left = used_resources()
    if not hasattr(ray.util, "why"):
        return left  # Ray's lists need its dashboard
    from ray.util.state import list_actors, list_objects, list_tasks

    pinned = sys.__dict__.get("_pinned_by_programs", set())
    rows = list_objects(limit=10_000, raise_on_missing_output=False)
    kept = [row for row in rows if row.object_id not in pinned and not is_inside(row)]
    makers = {}
    if kept:
        tasks = list_tasks(limit=10_000, raise_on_missing_output=False)
        makers = {task.task_id: f"{task.name} {task.state}" for task in tasks}
    left += [
        f"an object: {row.object_id} {row.object_size} {row.reference_type} {row.task_status} "
        f"{row.type} {row.pid} {makers.get(row.object_id[:48], '')}"
        for row in kept
    ]
    left += [
        f"an actor: {row.class_name} {row.state}"
        for row in list_actors(limit=10_000, filters=[("state", "!=", "DEAD")])
    ]
    return left


def used_resources() -> list[str]:
    import ray

    free, whole = ray.available_resources(), ray.cluster_resources()
    return [
        f"resources in use: {name} {free.get(name)} of {whole.get(name)}"
        for name in ("CPU", "n0", "n1", "n2")
        if free.get(name) != whole.get(name)
    ]


def is_inside(row: Any) -> bool:
    """Whether a captured object holds it."""
    return bool(row.reference_type == "CAPTURED_IN_OBJECT")


if __name__ == "__main__":
    sys.exit(Host(sys.argv[1], int(sys.argv[2]), float(sys.argv[3])).run())
