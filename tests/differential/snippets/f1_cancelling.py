"""F1: cancelling in every state a task can be in."""

from __future__ import annotations

import time
from typing import Any

import ray
from kit import new_log, outcome, said, say, snippet, until


def _sleep() -> None:
    """For a minute; in one piece it would not be interrupted on Ray."""
    for _ in range(1200):
        time.sleep(0.05)


@ray.remote
def wait(path: str, seconds: float = 60) -> str:
    say(path, "begun ")
    try:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            time.sleep(0.05)
    except KeyboardInterrupt:
        say(path, "interrupted ")
        raise
    return "ended"


@ray.remote(num_cpus=1000)
def never() -> None: ...


def _get(ref: Any) -> Any:
    return outcome(lambda: ray.get(ref, timeout=25), "cancel")


def _can_be_caught(ref: Any) -> str:
    """Which of the documented classes catches it."""
    try:
        ray.get(ref, timeout=25)
    except ray.exceptions.TaskCancelledError:
        return "TaskCancelledError"
    except ray.exceptions.WorkerCrashedError:
        return "WorkerCrashedError"
    except BaseException as error:
        return type(error).__name__
    return "nothing raised"


@snippet("F1.16", limit_s=150)
def states() -> Any:
    @ray.remote
    def take(x: Any) -> Any:
        return x

    @ray.remote(num_returns=2)
    def two() -> Any:
        _sleep()
        return 1, 2

    @ray.remote
    def fail() -> None:
        raise ValueError("before")

    found: dict[str, Any] = {}
    ref = take.remote(never.remote())
    ray.cancel(ref)
    found["waits for its argument"] = _can_be_caught(ref)
    ref = never.remote()
    ray.cancel(ref)
    found["queued"] = _can_be_caught(ref)
    ref = never.remote()
    ray.cancel(ref, force=True)
    found["queued, by force"] = _can_be_caught(ref)
    path = new_log()
    busy = [wait.remote(path) for _ in range(4)]
    until(lambda: said(path).count("begun") == 4)
    behind = wait.remote(new_log())
    ray.cancel(behind)
    found["behind others"] = _can_be_caught(behind)
    for one in busy:
        ray.cancel(one)
    found["running"] = [_can_be_caught(one) for one in busy]
    found["interrupted"] = until(lambda: said(path).count("interrupted") == 4)
    path = new_log()
    ref = wait.remote(path)
    until(lambda: said(path))
    ray.cancel(ref, force=True)
    found["running, by force"] = _can_be_caught(ref)
    refs = two.remote()
    time.sleep(0.5)
    ray.cancel(refs[1])
    found["one of two returns"] = [_can_be_caught(r) for r in refs]
    ref = fail.remote()
    ray.wait([ref])
    ray.cancel(ref)
    found["failed"] = _can_be_caught(ref)
    ref = take.remote(5)
    ray.wait([ref])
    ray.cancel(ref, force=True)
    found["finished, by force"] = ray.get(ref)
    ref = never.remote()
    ray.cancel(ref)
    found["ready after it"] = len(ray.wait([ref], timeout=20)[0])
    ref = take.remote([ref])
    found["within a list"] = outcome(lambda: type(ray.get(ref)[0]).__name__)
    found["arguments"] = [
        outcome(lambda: ray.cancel(None), "ray.cancel"),
        outcome(lambda: ray.cancel([ref])),
        outcome(lambda: ray.cancel(ref, True)),
        outcome(lambda: ray.cancel("text")),
    ]
    return found


@snippet("F1.16", "F1.10", "F1.11", limit_s=150)
def never_tried_again() -> Any:
    @ray.remote(max_retries=5, retry_exceptions=True)
    def again(path: str) -> None:
        say(path, "begun ")
        _sleep()

    @ray.remote(max_retries=-1)
    def deaf(path: str) -> None:
        say(path, "begun ")
        while True:
            try:
                _sleep()
            except KeyboardInterrupt:
                pass

    @ray.remote(max_retries=3)
    def catches(path: str) -> str:
        say(path, "begun ")
        try:
            _sleep()
        except KeyboardInterrupt:
            say(path, "caught ")
        return "returned"

    @ray.remote(max_retries=3, retry_exceptions=True)
    def turns(path: str) -> str:
        say(path, "begun ")
        try:
            _sleep()
        except KeyboardInterrupt:
            raise ValueError("instead") from None
        return "returned"

    def tried(task: Any, **options: Any) -> Any:
        path = new_log()
        ref = task.remote(path)
        until(lambda: said(path))
        ray.cancel(ref, **options)
        caught = _can_be_caught(ref)
        time.sleep(1)
        return caught, said(path)

    return {
        "retried": tried(again),
        "deaf, by force": tried(deaf, force=True),
        "catches": tried(catches),
        "raises another": tried(turns),
    }


@snippet("F1.16", "F1.05", limit_s=150)
def children() -> Any:
    @ray.remote
    def parent(path: str, keep: bool) -> Any:
        refs = [wait.remote(path, 8), wait.remote(path, 8)]
        ray.get(refs)

    @ray.remote
    def grandparent(path: str) -> Any:
        return ray.get(parent.remote(path, True))

    @ray.remote
    def waits(path: str) -> Any:
        return ray.wait([wait.remote(path, 8)])

    def tried(task: Any, *args: Any, **options: Any) -> Any:
        path = new_log()
        ref = task.remote(path, *args)
        begun = 1 if task is waits else 2
        until(lambda: said(path).count("begun") == begun)
        ray.cancel(ref, **options)
        caught = _can_be_caught(ref)
        until(lambda: said(path).count("interrupted") == begun, 4)
        return caught, said(path).count("interrupted")

    def goes_on() -> Any:
        """Children of a parent that is cancelled alone come to their end."""
        path = new_log()

        @ray.remote
        def ends() -> None:
            time.sleep(3)
            say(path, "ended")

        @ray.remote
        def waits_for_it() -> Any:
            say(path, "begun ")
            return ray.get(ends.remote())

        ref = waits_for_it.remote()
        until(lambda: said(path))
        time.sleep(1)
        ray.cancel(ref, recursive=False)
        return _can_be_caught(ref), until(lambda: "ended" in said(path), 10)

    return {
        "recursive": tried(parent, True),
        "go on": goes_on(),
        "not recursive": tried(parent, True, recursive=False),
        "two deep": tried(grandparent),
        "in wait": tried(waits),
        "free again": until(lambda: ray.available_resources().get("CPU") == 4),
    }


@snippet("F1.16", "F1.09", limit_s=150)
def streams() -> Any:
    @ray.remote
    def stream(path: str, n: int = 100, step: float = 0.1) -> Any:
        try:
            for i in range(n):
                say(path, "x")
                yield i
                time.sleep(step)
        except KeyboardInterrupt:
            say(path, "interrupted")
            raise

    def ends(stream: Any) -> str:
        """How it ends, after whatever items there were."""
        for _ in range(200):
            try:
                ref = next(stream)
            except StopIteration:
                return "StopIteration"
            caught = _can_be_caught(ref)
            if caught != "nothing raised":
                return caught
        return "never"

    found = {}
    path = new_log()
    gen = stream.remote(path)
    ray.get(next(gen))
    ray.cancel(gen)
    found["midway"] = ends(gen)
    found["midway interrupted"] = bool(until(lambda: "interrupted" in said(path), 10))
    found["after it"] = outcome(lambda: next(gen))
    gen = stream.options(num_cpus=1000).remote(new_log())
    ray.cancel(gen)
    found["queued"] = ends(gen)
    gen = stream.remote(new_log(), 2, 0)
    values = [ray.get(r) for r in gen]
    found["finished"] = [values, outcome(lambda: ray.cancel(gen))]
    path = new_log()
    gen = stream.options(_generator_backpressure_num_objects=1).remote(path)
    ray.get(next(gen))
    time.sleep(0.5)
    ray.cancel(gen)
    found["held back"] = ends(gen)
    path = new_log()
    gen = stream.remote(path)
    ray.get(next(gen))
    ray.cancel(gen, force=True)
    found["by force"] = ends(gen)
    return found


@snippet("F1.16", "F2.21")
def whose_it_is_not() -> Any:
    @ray.remote
    def ends(refs: Any) -> str:
        ray.cancel(refs[0])
        return "done"

    @ray.remote
    def maker() -> Any:
        return [wait.remote(new_log())]

    path = new_log()
    ref = wait.remote(path)
    until(lambda: said(path))
    first = [outcome(lambda: ray.get(ends.remote([ref]))), _can_be_caught(ref)]
    (inner,) = ray.get(maker.remote())
    time.sleep(1)
    return {
        "borrowed": first,
        "made inside": [outcome(lambda: ray.cancel(inner)), _can_be_caught(inner)],
    }
